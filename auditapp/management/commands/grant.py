"""Give a person a role in a dataset."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand
from django.db import transaction

from auditapp import review
from auditapp.models.datasets import Dataset, Membership, Role
from auditapp.models.events import AuditEvent


class Command(BaseCommand):
    """Exit 0 done, 2 unusable input."""

    help = "Give a person a role in a dataset, or another one. --create makes the account."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("dataset")
        parser.add_argument("role", choices=[*Role.values, "none"], help="none takes the membership away")
        parser.add_argument(
            "--create",
            action="store_true",
            help="make the account; the password of one without is read from stdin",
        )

    def handle(self, *_args: Any, **wanted: Any) -> None:
        dataset = Dataset.objects.filter(name=wanted["dataset"]).first()
        try:
            user = self._user(wanted["user"], create=wanted["create"] and dataset is not None)
        except ValidationError as error:
            self.stderr.write(f"{wanted['user'][:200]!r} cannot be the name of an account: {' '.join(error.messages)}")
            sys.exit(2)
        if dataset is None or user is None:
            self.stderr.write(f"There is no {'user ' + wanted['user'] if dataset else 'dataset ' + wanted['dataset']}.")
            sys.exit(2)
        if wanted["role"] == "none":
            with transaction.atomic():
                Membership.objects.filter(dataset=dataset, user=user).delete()
                review.leave(user, dataset)
        else:
            Membership.objects.update_or_create(dataset=dataset, user=user, defaults={"role": wanted["role"]})
        detail = {"user": user.username, "role": wanted["role"]}
        AuditEvent.objects.create(dataset=dataset, action="role_granted", subject=f"user {user.pk}", detail=detail)
        self.stdout.write(f"{user.username} is {wanted['role']} of {dataset.name}.")
        if wanted["role"] != "none" and not user.has_usable_password():
            self.stderr.write(
                f"{user.username} has no password and cannot log in: manage.py changepassword {user.username}"
            )

    def _user(self, name: str, *, create: bool) -> User | None:
        user = User.objects.filter(username=name).first()
        if create and user is None:
            User(username=name).clean_fields(exclude=["password"])
        if create and (user is None or not user.has_usable_password()):
            password = sys.stdin.readline().strip()
            user = user or User.objects.create_user(name)
            if password:
                user.set_password(password)
                user.save(update_fields=["password"])
        return user
