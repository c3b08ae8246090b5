"""Versions of the packages of custom nodes, as ComfyUI-Manager lists them. Pure.

ComfyUI itself reports no versions. Manager 3 has the list under `/customnode/installed`, Manager 4 under
`/v2/customnode/installed`. It is an object with the names of the folders, and for each of them
`{"ver": "8.2.1", "cnr_id": …, "aux_id": …, "enabled": true}`. The version of a package that was cloned with git is its
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

INSTALLED_PATHS: Final = ("/customnode/installed", "/v2/customnode/installed")
# A thousand packages are about 200 kB.
MAX_LIST_BYTES: Final = 2_000_000
MAX_VERSION_LENGTH: Final = 100


def versions_of_installed(listed: object, names: Iterable[str]) -> dict[str, str]:
    """The versions of these packages, in a response of ComfyUI-Manager. Unreadable entries are left out."""
    if not isinstance(listed, Mapping):
        return {}
    found = {str(name): version for name, entry in listed.items() if (version := _version(entry)) is not None}
    # Manager changes the case of some folder names.
    folded = {name.casefold(): version for name, version in found.items()}
    versions = {name: found.get(name) or folded.get(name.casefold()) for name in names}
    return {name: version for name, version in versions.items() if version is not None}


def _version(entry: object) -> str | None:
    if not isinstance(entry, Mapping) or entry.get("enabled") is False:
        return None
    version = entry.get("ver")
    if not isinstance(version, str) or not version.isprintable():
        return None
    version = version.strip()
    return version if 0 < len(version) <= MAX_VERSION_LENGTH else None
