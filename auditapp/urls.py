"""Addresses of the pages. Ids in addresses are random; only datasets are named."""

from django.contrib.auth import views as auth
from django.urls import path

from auditapp.views import datasets, health, imports, labels, reader, reader_tabs, runs, samples

handler403 = "auditapp.views.errors.not_allowed"
handler404 = "auditapp.views.errors.not_found"
handler500 = "auditapp.views.errors.broken"

urlpatterns = [
    path("", datasets.home, name="home"),
    path("import/", imports.import_first, name="import-first"),
    path("imports/<uuid:public_id>/", imports.import_batch, name="import"),
    path("samples/<uuid:public_id>/", samples.sample, name="sample"),
    path("runs/<uuid:public_id>/", runs.run, name="run"),
    path("runs/<uuid:public_id>/progress/", runs.run_progress, name="run-progress"),
    path("runs/<uuid:public_id>/steer/", runs.steer, name="run-steer"),
    path("labels/<uuid:public_id>/", labels.label, name="label"),
    path("taxonomy/", labels.taxonomy_page, name="taxonomy"),
    path("d/<str:name>/", datasets.dataset, name="dataset"),
    path("d/<str:name>/not-run/", datasets.rule_not_run, name="rule-not-run"),
    path("d/<str:name>/trajectories/", datasets.trajectories, name="trajectories"),
    path("d/<str:name>/imports/", imports.imports, name="imports"),
    path("d/<str:name>/imports/new/", imports.import_new, name="import-new"),
    path("d/<str:name>/samples/", samples.samples, name="samples"),
    path("d/<str:name>/samples/freeze/", samples.freeze, name="frame-freeze"),
    path("d/<str:name>/samples/new/", samples.sample_new, name="sample-new"),
    path("d/<str:name>/runs/", runs.runs, name="runs"),
    path("d/<str:name>/runs/new/", runs.run_new, name="run-new"),
    path("d/<str:name>/labels/", labels.label_table, name="labels"),
    path("d/<str:name>/export/", labels.export, name="export"),
    path("login", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", auth.LogoutView.as_view(), name="logout"),
    path("password", auth.PasswordChangeView.as_view(), name="password_change"),
    path("password/done", auth.PasswordChangeDoneView.as_view(), name="password_change_done"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("t/<uuid:public_id>/", reader.steps, name="trajectory"),
    path("t/<uuid:public_id>/chunk/<int:number>/", reader.chunk, name="trajectory-chunk"),
    path("t/<uuid:public_id>/lines/", reader.lines, name="trajectory-lines"),
    path("t/<uuid:public_id>/search/", reader.search, name="trajectory-search"),
    path("t/<uuid:public_id>/deliverable/", reader.deliverable, name="trajectory-deliverable"),
    path("t/<uuid:public_id>/file/<slug:root>/", reader.file, name="trajectory-file"),
    path("t/<uuid:public_id>/task/", reader.task, name="trajectory-task"),
    path("t/<uuid:public_id>/verifier/", reader_tabs.verifier, name="trajectory-verifier"),
    path("t/<uuid:public_id>/reference/", reader_tabs.reference, name="trajectory-reference"),
    path("t/<uuid:public_id>/recording/", reader_tabs.recording, name="trajectory-recording"),
    path("t/<uuid:public_id>/hidden/<slug:root>/", reader_tabs.hidden_file, name="trajectory-hidden-file"),
]
