"""Which servers are PostgreSQL, by the text that each returns for `SELECT version()`."""

from __future__ import annotations

import pytest

from callsheet.plumbing.database.servers.look_alikes import NotPostgreSQL, look_alike, require_postgresql

POSTGRESQL = [
    "PostgreSQL 18.6 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-26), 64-bit",
    "PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc 12.2.0, 64-bit",
    "PostgreSQL 16.1 - Percona Distribution on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.4.1, 64-bit",
    # Amazon RDS and Aurora.
    "PostgreSQL 15.4 on aarch64-unknown-linux-gnu, compiled by gcc (GCC) 9.5.0, 64-bit",
    "PostgreSQL 19beta1 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 15.1.0, 64-bit",
]
OTHERS = {
    "CockroachDB CCL v24.3.5 (x86_64-pc-linux-gnu, built 2025/02/03 17:28:15, go1.22.8)": "CockroachDB",
    "PostgreSQL 15.2-YB-2026.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6, 64-bit": "YugabyteDB",
    "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), "
    "Redshift 1.0.77467": "Amazon Redshift",
    "PostgreSQL 9.4.26 (Greenplum Database 6.25.3 build commit:367edc6b4dfd909fe38fc288ade9e294d74e3f9a Open Source) "
    "on x86_64-unknown-linux-gnu, compiled by gcc (Ubuntu 7.5.0-3ubuntu1~18.04) 7.5.0, 64-bit": "Greenplum",
    "PostgreSQL 9.2.4 (openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:07:56 commit 0 last mr   on "
    "x86_64-unknown-linux-gnu, compiled by g++ (GCC) 7.3.0, 64-bit": "openGauss",
    "PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB": "QuestDB",
    "CrateDB 5.5.0 (built c6c6f7f/2023-10-23T12:45:43Z, Linux 5.15.0 amd64, OpenJDK 64-Bit Server VM)": "CrateDB",
}


@pytest.mark.parametrize("version", POSTGRESQL)
def test_postgresql_15_and_newer_is_accepted(version: str) -> None:
    require_postgresql(version)


@pytest.mark.parametrize(("version", "product"), OTHERS.items(), ids=OTHERS.values())
def test_servers_that_only_look_like_postgresql_are_named(version: str, product: str) -> None:
    assert look_alike(version) == product
    with pytest.raises(NotPostgreSQL, match=f"it is {product}, which speaks the protocol of PostgreSQL"):
        require_postgresql(version)


def test_an_old_postgresql_is_refused() -> None:
    with pytest.raises(NotPostgreSQL, match=r"it is PostgreSQL 14$"):
        require_postgresql("PostgreSQL 14.4 on x86_64-pc-linux-gnu, compiled by Debian clang version 12.0.1, 64-bit")
