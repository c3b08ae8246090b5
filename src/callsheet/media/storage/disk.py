"""The files of the local backend. Everything here blocks; `local` calls it from its threads.

    incoming/<id>                   bytes that are being written
    blobs/<2 digits>/<id>           bytes that are complete; never changed, only removed
    objects/<folders>/<name>,json   a pointer: which blob an object is, with type, size and checksum

An object is replaced by renaming a pointer over another: bytes, type, size and checksum change together. A blob
that no pointer names is garbage, whatever left it there; `sweep` removes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from callsheet.media.storage.folders import (
    EnterFolder,
    create_file,
    files_below,
    folder,
    new_file,
    open_file,
    read_file,
    write_all,
)
from callsheet.media.storage.shared_sync import Steps, Unsynced

INCOMING, BLOBS, OBJECTS = "incoming", "blobs", "objects"
# Commas do not occur in keys: a pointer never collides with a folder, so `a` and `a/b` can both be objects.
_POINTER_SUFFIX = ",json"
_BLOB = re.compile(r"[0-9a-f]{32}")
_CAPITAL = re.compile("[A-Z]")
_POINTER_BYTES = 4096
_COMMIT_ATTEMPTS = 5
# Folders that are open while objects in them are removed.
_REMOVED_AT_ONCE = 64

Used = TypeVar("Used")


class DamagedStorage(OSError):
    """A pointer names bytes that are not there, or cannot be read."""


class Pointer(NamedTuple):
    blob: str
    size: int
    content_type: str
    sha256: str
    modified_at: float


class Blob:
    """Bytes that no pointer names yet. `Disk.point` names them; code that fails before that calls `discard`."""

    def __init__(self, root: Path, beside: str | None = None) -> None:
        """`beside`: a blob whose folder it shall be in."""
        name = secrets.token_hex(16)
        self.name = name if beside is None else beside[:2] + name[2:]
        self.is_named = False
        self._root = root

    def discard(self) -> None:
        """Removes the bytes, wherever they have got to, unless a pointer names them.

        A full or failing disk must not hide the error that led here; the sweep tries again.
        """
        if self.is_named:
            return
        for place in ((INCOMING,), _shelf(self.name)):
            with suppress(OSError), folder(self._root, *place) as parent:
                os.unlink(self.name, dir_fd=parent)


class Draft(Blob):
    """A blob that is being written: `open`, `write`, `seal`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.size = 0
        self._hash = hashlib.sha256()
        self._file: FileIO | None = None

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def open(self) -> None:
        with folder(self._root, INCOMING, create=True) as incoming:
            self._file = create_file(incoming, self.name)

    def write(self, batch: bytes) -> None:
        assert self._file is not None
        write_all(self._file.fileno(), batch)
        self._hash.update(batch)
        self.size += len(batch)

    def seal(self) -> None:
        assert self._file is not None
        # A slow upload may have written its last byte long ago: its age counts from here, or a sweep between
        # this line and the pointer would take it for rubbish.
        os.utime(self._file.fileno())
        os.fsync(self._file.fileno())
        self._file.close()
        with folder(self._root, INCOMING) as incoming, folder(self._root, *_shelf(self.name), create=True) as shelf:
            os.rename(self.name, self.name, src_dir_fd=incoming, dst_dir_fd=shelf)
            os.fsync(shelf)

    def discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        super().discard()


class Disk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._enter: EnterFolder = partial(folder, root)

    def draft(self) -> Draft:
        return Draft(self.root)

    def point(
        self, enter: EnterFolder, key: str, pointer: Pointer, blob: Blob, unsynced: Sequence[int] = ()
    ) -> Steps[None]:
        """The commit: from here on the key is this blob. The blob it was before goes. `unsynced` has the folder of the
        blob if it is not durable yet."""
        *folders, name = _path(key)
        draft = f"{blob.name}{_POINTER_SUFFIX}"
        with enter(INCOMING, create=True) as incoming:
            try:
                with new_file(incoming, draft) as file:
                    write_all(file, json.dumps(pointer._asdict()).encode())
                    yield Unsynced(unsynced, files=(file,))
                replaced = yield from self._rename_into(
                    enter, incoming, draft, [*folders, name + _POINTER_SUFFIX], blob
                )
            except OSError:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=incoming)
                raise
        if replaced is not None:
            _unlink_blob(enter, replaced)

    def _rename_into(
        self, enter: EnterFolder, incoming: int, draft: str, path: list[str], blob: Blob
    ) -> Steps[str | None]:
        """Returns the blob of the pointer that was there before."""
        *folders, name = path
        attempts = 0
        while True:
            try:
                with enter(OBJECTS, *folders, create=True) as parent:
                    replaced = _blob_of(parent, name)
                    os.rename(draft, name, src_dir_fd=incoming, dst_dir_fd=parent)
                    # From here on readers see it, also when making the folder durable fails.
                    blob.is_named = True
                    yield Unsynced((parent,))
                    return replaced
            except FileNotFoundError:
                # A sweep removed the empty folder between its making and the rename.
                attempts += 1
                if attempts == _COMMIT_ATTEMPTS:
                    raise

    def find(self, key: str, enter: EnterFolder | None = None) -> Pointer | None:
        enter = enter or self._enter
        *folders, name = _path(key)
        try:
            with enter(OBJECTS, *folders) as parent:
                return _read_pointer(parent, name + _POINTER_SUFFIX)
        except FileNotFoundError:
            return None

    def open(self, key: str) -> tuple[Pointer, FileIO] | None:
        """The pointer and its bytes, held open, which stay readable also when the object is replaced."""
        return self._follow(self._enter, key, lambda pointer, shelf: open_file(shelf, pointer.blob))

    def copy(
        self,
        enter: EnterFolder,
        source: str,
        target: str,
        modified_at: float,
        peek: int,
        before_pointer: Callable[[], None],
    ) -> Steps[tuple[Pointer, bytes] | None]:
        """The pointer of the copy, and up to `peek` bytes of its beginning. A copy that fails leaves nothing: a full
        disk must not be kept full for a day by what could not be stored."""
        blob: Blob | None = None

        def make_link(pointer: Pointer, shelf: int) -> bytes:
            """The bytes of the object as a second blob: they never change, so a copy takes no space and no time. In
            the same folder, which is open."""
            nonlocal blob
            blob = Blob(self.root, beside=pointer.blob)
            os.utime(pointer.blob, dir_fd=shelf, follow_symlinks=False)
            os.link(pointer.blob, blob.name, src_dir_fd=shelf, dst_dir_fd=shelf, follow_symlinks=False)
            return read_file(shelf, blob.name, peek) if peek else b""

        try:
            found = self._follow(enter, source, make_link)
            if found is None:
                return None
            assert blob is not None
            pointer = found[0]._replace(blob=blob.name, modified_at=modified_at)
            before_pointer()
            with enter(*_shelf(blob.name)) as shelf:
                yield from self.point(enter, target, pointer, blob, unsynced=(shelf,))
        except (Exception, asyncio.CancelledError):
            if blob is not None:
                blob.discard()
            raise
        return pointer, found[1]

    def _follow(self, enter: EnterFolder, key: str, use: Callable[[Pointer, int], Used]) -> tuple[Pointer, Used] | None:
        """What `use` makes of the object's pointer and of the folder its blob is in."""
        seen: Pointer | None = None
        while (pointer := self.find(key, enter)) is not None:
            try:
                with enter(*_shelf(pointer.blob)) as shelf:
                    return pointer, use(pointer, shelf)
            except FileNotFoundError:
                # Replaced between the two reads: the new pointer leads to the new bytes. Twice the same one does not.
                if pointer == seen:
                    raise DamagedStorage(f"the bytes of {key} are missing") from None
                seen = pointer
        return None

    def remove(self, enter: EnterFolder, *keys: str) -> Steps[None]:
        by_folder: dict[tuple[str, ...], list[str]] = {}
        for *folders, name in map(_path, keys):
            by_folder.setdefault(tuple(folders), []).append(name + _POINTER_SUFFIX)
        paths = iter(by_folder.items())
        while some := [*islice(paths, _REMOVED_AT_ONCE)]:
            blobs: list[str | None] = []
            with ExitStack() as stack:
                parents = []
                for path, names in some:
                    with suppress(FileNotFoundError):
                        parent = stack.enter_context(enter(OBJECTS, *path))
                        blobs.extend(_unlink_pointer(parent, name) for name in names)
                        parents.append(parent)
                # Before the bytes go: no crash may leave a pointer to bytes that are gone.
                yield Unsynced(parents)
            for blob in filter(None, blobs):
                _unlink_blob(enter, blob)

    def entries(self, key_folder: str) -> Generator[tuple[str, Pointer]]:
        names = _path(key_folder) if key_folder else []
        with suppress(FileNotFoundError), folder(self.root, OBJECTS, *names) as top:
            for folders, parent, name in files_below(top):
                if not name.endswith(_POINTER_SUFFIX):
                    continue
                with suppress(FileNotFoundError):
                    pointer = _read_pointer(parent, name)
                    yield _key([*names, *folders, name.removesuffix(_POINTER_SUFFIX)]), pointer


def _unlink_pointer(parent: int, name: str) -> str | None:
    """Returns its blob."""
    blob = _blob_of(parent, name)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
    return blob


def _unlink_blob(enter: EnterFolder, blob: str) -> None:
    with suppress(FileNotFoundError), enter(*_shelf(blob)) as shelf:
        os.unlink(blob, dir_fd=shelf)


def _shelf(blob: str) -> tuple[str, str]:
    return BLOBS, blob[:2]


def _blob_of(parent: int, name: str) -> str | None:
    """A pointer that cannot be read does not prevent that the object is replaced or deleted."""
    with suppress(FileNotFoundError, DamagedStorage):
        return _read_pointer(parent, name).blob
    return None


def _read_pointer(parent: int, name: str) -> Pointer:
    content = read_file(parent, name, _POINTER_BYTES)
    try:
        pointer = Pointer(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise DamagedStorage(f"{name} is not a pointer") from error
    if not _BLOB.fullmatch(pointer.blob):
        raise DamagedStorage(f"{name} is not a pointer")
    return pointer


def _path(key: str) -> list[str]:
    """Capitals are spelt `~a`, since macOS takes `A` and `a` for the same file."""
    return _CAPITAL.sub(lambda capital: f"~{capital[0].lower()}", key).split("/")


def _key(path: list[str]) -> str:
    return "/".join(re.sub("~([a-z])", lambda escaped: escaped[1].upper(), segment) for segment in path)
