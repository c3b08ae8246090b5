"""The drivers by name."""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.scaling.driver import Driver
from callsheet.scaling.drivers.aws_asg import AwsAsg
from callsheet.scaling.drivers.command import CommandDriver
from callsheet.scaling.drivers.kubernetes import Kubernetes
from callsheet.scaling.drivers.process import ProcessDriver, RegistrationTokens
from callsheet.settings import Settings


def open_drivers(settings: Settings, tokens: RegistrationTokens) -> Mapping[str, Driver]:
    """Every driver of this installation. A driver opens its connection when it is first used."""
    drivers: list[Driver] = [
        CommandDriver(settings.scaling),
        AwsAsg(settings.fleet),
        Kubernetes(),
        ProcessDriver(settings, tokens),
    ]
    return {driver.name: driver for driver in drivers}
