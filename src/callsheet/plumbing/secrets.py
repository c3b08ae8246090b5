"""The installation's one secret, and the seal that keeps pool DSNs unreadable in the central database."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.signing import derive_key

SECRET_FILE = "secret_key"  # noqa: S105 (a file name)
LEAST_BYTES = 32


def master_secret(settings: Settings, *, create: bool = True) -> bytes:
    """The secret of the settings, or the one kept in the data directory, made at first use where `create` allows."""
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value().encode()
    file = settings.home / SECRET_FILE
    try:
        if not file.exists():
            if not create:
                raise OperatorError(
                    f"The secret key of this installation is not here ({file} does not exist). Put the file back from "
                    "a backup, or set CALLSHEET_SECRET_KEY to the key that the control plane uses."
                )
            _create(file)
        secret = file.read_bytes().strip()
    except OSError as error:
        raise OperatorError(
            f"The secret key {file} cannot be used ({error.strerror}). Run as the user it belongs to, name another "
            "data directory with CALLSHEET_HOME, or set CALLSHEET_SECRET_KEY."
        ) from error
    if len(secret) < LEAST_BYTES:
        # Keys derived from an emptied file would be anybody's guess.
        raise OperatorError(
            f"The secret key in {file} is damaged: it has {len(secret)} bytes. Put it back from a backup; without one, "
            "remove the file, and signed addresses, sessions and the addresses of pools are lost."
        )
    return secret


def _create(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(secrets.token_urlsafe(48))
        stream.flush()
        os.fsync(stream.fileno())
    try:
        # link, not rename: of two processes that start at once the first one's secret stays.
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def seal(master: bytes, purpose: str, text: str) -> bytes:
    from cryptography.fernet import Fernet  # imported here: only installations with foreign pools pay its 8 MB

    return Fernet(_fernet_key(master, purpose)).encrypt(text.encode())


def unseal(master: bytes, purpose: str, sealed: bytes) -> str | None:
    """The text, or None where it was sealed with another secret."""
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return Fernet(_fernet_key(master, purpose)).decrypt(sealed).decode()
    except InvalidToken:
        return None


def _fernet_key(master: bytes, purpose: str) -> bytes:
    return base64.urlsafe_b64encode(derive_key(master, purpose))
