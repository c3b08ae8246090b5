"""Commands on a machine that reaches the databases and has no secret key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs.commands import Callsheet

# The DSN of a second pool is encrypted with the key.
pytestmark = pytest.mark.usefixtures("installed_with_one_pool")
EMAIL = "keyless@example.com"


def test_a_machine_without_the_secret_key_runs_commands_that_need_none(callsheet: Callsheet, tmp_path: Path) -> None:
    """It gets no key either: another key than that of the installation would be refused from then on."""
    bare = callsheet.having(HOME=str(tmp_path / "bare"))
    bare.succeed("tenants", "create", "keyless")
    bare.succeed("users", "create", EMAIL, "--tenant", "keyless", "--json")
    assert bare.succeed("tenants", "quotas", "keyless", "--json").json["tenant"] == "keyless"
    assert bare.succeed("tenants", "share", "keyless", "--weight", "2", "--json").json["weight"] == 2
    assert bare.succeed("wallet", "credit", EMAIL, "5", "--json").json["balance"] == 5
    assert bare.succeed("keys", "create", "--user", EMAIL, "--json").json["key"]
    refused = bare.call("users", "reset-password", EMAIL).sentence
    assert refused.startswith("The secret key of this installation is not here")
    assert not (tmp_path / "bare" / "secret_key").exists()
