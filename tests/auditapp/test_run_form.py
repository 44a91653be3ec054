"""What is no budget is refused by the form, before the database would."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auditapp.models.judgments import JudgeRun
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from tests.auditapp.looks import make_world

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("budget", ["0", "-1", "NaN", "1000000000", "0.00001"])
def test_a_run_with_what_is_no_budget_is_not_begun(budget: str) -> None:
    version = make_world(1)
    sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
    lead, client = User.objects.create_user("lead"), Client()
    version.dataset.membership_set.create(user=lead, role="lead")
    client.force_login(lead)
    wanted = {"sample": str(sample.public_id), "judge": "shipped:rules", "replicates": 1, "budget_usd": budget}
    response = client.post(reverse("run-new", args=[version.dataset.name]), wanted)
    assert (response.status_code, list(response.context["form"].errors)) == (422, ["budget_usd"])
    assert not JudgeRun.objects.exists()
