"""A judge looks again at what it has judged: how much of its answers is noise."""

from decimal import Decimal

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q

from auditapp.judging import create_judge_run
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.models.samples import Sample
from auditapp.sampling import draw_part
from auditapp.stats.allocation import Plan


def repeat_judge(
    sample: Sample,
    config: JudgeConfig,
    *,
    looks: int,
    size: int | None,
    by: User | None,
    budget_usd: Decimal | None = None,
) -> JudgeRun:
    """Plan `looks` at each trajectory of a sample, or at a random `size` of them; looks made already are not made anew.

    The part is drawn with the sample's own seed. A draw takes the first of each stratum in the seed's order, so a
    smaller one of the same seed lies in the larger, wherever that took as many of a stratum. It is no draw of its own.
    Raises AllocationError, SamplingError and JudgingError.
    """
    part = sample
    if size is not None and size < sample.size:
        part = draw_part(sample, Plan("proportional", size), by=by)
    return create_judge_run(part, config, by=by, replicates=looks, budget_usd=budget_usd)


def looks_again() -> Q:
    """Runs that repeat part of what their judge had judged before: they tell of the judge, not of the verifier."""
    larger = JudgeRun.objects.filter(
        config=OuterRef("config"), sample__frame=OuterRef("sample__frame"), sample__size__gt=OuterRef("sample__size")
    )
    return Q(replicates__gt=1) & Q(Exists(larger.filter(pk__lt=OuterRef("pk"))))
