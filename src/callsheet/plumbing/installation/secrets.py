"""The secret of the installation, and the encryption of pool DSNs in the central database."""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path

from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import make_private
from callsheet.toolbox.signing import KeyPair, Master, derive_key, masters
from callsheet.wire.plurals import counted

SECRET_FILE = "secret_key"  # noqa: S105 (a file name)
SECOND_FILE = "second_secret_key"
MIN_BYTES = 32
# Purpose of the key that encrypts the DSNs of pools.
SEAL = "pool dsn"


def master_secret(settings: Settings, *, create: bool = True) -> Master:
    """The secret of the settings, or the one in the data directory, which is created at first use if `create` allows
    it.

    During a rotation there is a second secret, which is accepted but not used for anything new.
    """
    given = settings.second_secret_key
    second = None if given is None else given.get_secret_value().encode()
    if settings.secret_key is not None:
        first = settings.secret_key.get_secret_value().encode()
    else:
        first = _kept(settings.home / SECRET_FILE, create=create)
        file = settings.home / SECOND_FILE
        if second is None and file.exists():
            second = _kept(file, create=False)
    return first if second in (None, first) else KeyPair(first, second)


def has_key(settings: Settings) -> bool:
    return settings.secret_key is not None or (settings.home / SECRET_FILE).exists()


def _kept(file: Path, *, create: bool) -> bytes:
    try:
        if not file.exists():
            if not create:
                raise OperatorError(
                    f"The secret key of this installation is not here ({file} does not exist). Put the file back from "
                    "a backup, name another data directory with CALLSHEET_HOME, or set CALLSHEET_SECRET_KEY to the key "
                    "that the control plane uses. If the key is lost, run: callsheet secrets reset"
                )
            _create(file)
        secret = file.read_bytes().strip()
    except OSError as error:
        raise OperatorError(
            f"The secret key {file} cannot be used ({error.strerror}). Run as the user it belongs to, name another "
            "data directory with CALLSHEET_HOME, or set CALLSHEET_SECRET_KEY."
        ) from error
    if len(secret) < MIN_BYTES:
        # Keys derived from an empty file could be guessed.
        raise OperatorError(
            f"The secret key in {file} is damaged: it has {counted(len(secret), 'byte')}. Put it back from a "
            "backup; without one, "
            "remove the file, and signed URLs, sessions and the DSNs of pools are lost."
        )
    return secret


def replace_kept(home: Path) -> None:
    """Creates a new key; the current key becomes the second one. After a crash, call it again to continue."""
    first, second = home / SECRET_FILE, home / SECOND_FILE
    _kept(first, create=False)
    with suppress(FileExistsError):
        # The same key under both names, until the first one is replaced.
        os.link(first, second)
    draft = _draft(first)
    os.replace(draft, first)


def forget_second(home: Path) -> None:
    (home / SECOND_FILE).unlink(missing_ok=True)


def new_key() -> str:
    return secrets.token_urlsafe(48)


def fingerprint(secret: bytes) -> str:
    """Distinguishes keys without revealing anything about them."""
    return derive_key(secret, "fingerprint").hex()[:12]


def _create(file: Path) -> None:
    make_private(file.parent)
    draft = _draft(file)
    try:
        # link, not rename: if two processes start at the same time, the secret of the first one stays.
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _draft(file: Path) -> Path:
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(new_key())
        stream.flush()
        os.fsync(stream.fileno())
    return draft


def seal(master: Master, purpose: str, text: str) -> bytes:
    # Imported here, so that only installations with foreign pools need its 8 MB.
    from cryptography.fernet import Fernet

    return Fernet(_fernet_key(masters(master)[0], purpose)).encrypt(text.encode())


def unseal(master: Master, purpose: str, sealed: bytes) -> str | None:
    """The decrypted text; None if it was encrypted with another secret."""
    from cryptography.fernet import Fernet, InvalidToken

    for each in masters(master):
        with suppress(InvalidToken):
            return Fernet(_fernet_key(each, purpose)).decrypt(sealed).decode()
    return None


def _fernet_key(master: bytes, purpose: str) -> bytes:
    return base64.urlsafe_b64encode(derive_key(master, purpose))
