"""Addresses of the pages. Ids in addresses are random; only datasets are named."""

from django.contrib.auth import views as auth
from django.urls import path

from auditapp.views import health

handler403 = "auditapp.views.errors.not_allowed"
handler404 = "auditapp.views.errors.not_found"
handler500 = "auditapp.views.errors.broken"

urlpatterns = [
    path("login", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", auth.LogoutView.as_view(), name="logout"),
    path("password", auth.PasswordChangeView.as_view(), name="password_change"),
    path("password/done", auth.PasswordChangeDoneView.as_view(), name="password_change_done"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
