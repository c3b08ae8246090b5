"""The files of the local backend. Everything here blocks; `local` calls it from its threads.

    incoming/<blob>                 bytes that are being written
    blobs/<2 digits>/<blob>         bytes that are complete; never changed, only removed
    objects/<folders>/<name>,json   a pointer: which blob an object is, with type, size and checksum

An object is replaced by renaming a pointer over another: bytes, type, size and checksum change together. A blob
that no pointer names is garbage, whatever left it there; `sweep` removes it.

The name of the blob follows from the id in the pointer and from the object's key. So a pointer file can have two names,
and each name has a blob of its own, which goes with it (decision 0046).
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

from callsheet.media.storage.file_threads import Steps, Unsynced
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
    id: str

    def as_json(self) -> bytes:
        fields = self._asdict()
        del fields["blob"]
        return json.dumps(fields).encode()


class Blob:
    """Bytes that no pointer names yet. `Disk.point` names them; code that fails before that calls `discard`."""

    def __init__(self, root: Path, key: str, beside: str | None = None) -> None:
        """`beside`: a blob whose folder it shall be in."""
        drawn = secrets.token_hex(16)
        self.id = drawn if beside is None else beside[:2] + drawn[2:]
        self.name = blob_name(self.id, key)
        self.is_named = False
        self._root = root

    def discard(self) -> None:
        """Removes the bytes, wherever they have got to, unless a pointer names them.

        A full or failing disk must not hide the error that led here; the sweep tries again.
        """
        if self.is_named:
            return
        for place in ((INCOMING,), _folder_of_blob(self.name)):
            with suppress(OSError), folder(self._root, *place) as parent:
                os.unlink(self.name, dir_fd=parent)


class Draft(Blob):
    """A blob that is being written: `open`, `write`, `seal`."""

    def __init__(self, root: Path, key: str) -> None:
        super().__init__(root, key)
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
        with (
            folder(self._root, INCOMING) as incoming,
            folder(self._root, *_folder_of_blob(self.name), create=True) as blob_folder,
        ):
            os.rename(self.name, self.name, src_dir_fd=incoming, dst_dir_fd=blob_folder)
            os.fsync(blob_folder)

    def discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        super().discard()


class Disk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._enter: EnterFolder = partial(folder, root)

    def draft(self, key: str) -> Draft:
        return Draft(self.root, key)

    def point(
        self, enter: EnterFolder, key: str, pointer: Pointer, blob: Blob, unsynced: Sequence[int] = ()
    ) -> Steps[None]:
        """The commit: from here on the key is this blob. The blob it was before goes. `unsynced` has the folder of the
        blob if it is not durable yet."""
        draft = f"{blob.name}{_POINTER_SUFFIX}"
        with enter(INCOMING, create=True) as incoming:
            try:
                with new_file(incoming, draft) as file:
                    write_all(file, pointer.as_json())
                    yield Unsynced(unsynced, files=(file,))
                replaced = yield from self._rename_into(enter, incoming, draft, key, blob)
            except OSError:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=incoming)
                raise
        if replaced is not None:
            _unlink_blob(enter, replaced)

    def _rename_into(self, enter: EnterFolder, incoming: int, draft: str, key: str, blob: Blob) -> Steps[str | None]:
        """Returns the blob of the pointer that was there before."""
        folders, name = _place(key)
        attempts = 0
        while True:
            try:
                with enter(OBJECTS, *folders, create=True) as parent:
                    replaced = _blob_of(parent, name, key)
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
        folders, name = _place(key)
        try:
            with enter(OBJECTS, *folders) as parent:
                return _read_pointer(parent, name, key)
        except FileNotFoundError:
            return None

    def open(self, key: str) -> tuple[Pointer, FileIO] | None:
        """The pointer and its bytes, held open, which stay readable also when the object is replaced."""
        return self._follow(self._enter, key, lambda pointer, blob_folder: open_file(blob_folder, pointer.blob))

    def copy(
        self,
        enter: EnterFolder,
        source: str,
        target: str,
        modified_at: float,
        peek: int,
        half_made: Callable[[], None],
    ) -> Steps[tuple[Pointer, bytes] | None]:
        """The pointer of the copy, and up to `peek` bytes of its beginning. A copy that fails leaves nothing: a full
        disk must not be kept full for a day by what could not be stored. `half_made` is called before the last step."""
        if _place(source)[0] == _place(target)[0]:
            # If the target exists, the copy gets a pointer of its own.
            with suppress(FileExistsError):
                return (yield from self._add_name(enter, source, target, peek, half_made))
        return (yield from self._copy(enter, source, target, modified_at, peek, half_made))

    def _add_name(
        self, enter: EnterFolder, source: str, target: str, peek: int, half_made: Callable[[], None]
    ) -> Steps[tuple[Pointer, bytes] | None]:
        """The copy is a second name of the source's pointer, and of its blob. Nothing is written but names, and they
        wait for the disk together. The target is a new key in the same folder: no process uses it before this ends,
        so it may lack its bytes until then. Its time is that of the source.

        The pointer gets its name first. A sweep in between finds no blob without a pointer.
        """
        folders, source_name = _place(source)
        _, name = _place(target)
        replaced: Pointer | None = None
        while True:
            pointer: Pointer | None = None
            try:
                with enter(OBJECTS, *folders) as parent:
                    _link(parent, source_name, name)
                    try:
                        pointer = _read_pointer(parent, name, target)
                        half_made()
                        with enter(*_folder_of_blob(pointer.blob)) as blob_folder:
                            _link(blob_folder, blob_name(pointer.id, source), pointer.blob)
                            beginning = read_file(blob_folder, pointer.blob, peek) if peek else b""
                            yield Unsynced((blob_folder, parent))
                            return pointer, beginning
                    except (Exception, asyncio.CancelledError):
                        with suppress(OSError):
                            os.unlink(name, dir_fd=parent)
                        if pointer is not None:
                            with suppress(OSError):
                                _unlink_blob(enter, pointer.blob)
                        raise
            except FileNotFoundError:
                if pointer is None:
                    return None
                # Replaced after the pointer got its second name, and the bytes are gone. The next attempt finds the
                # new ones.
                if pointer == replaced:
                    raise _missing_bytes(source) from None
                replaced = pointer

    def _copy(
        self,
        enter: EnterFolder,
        source: str,
        target: str,
        modified_at: float,
        peek: int,
        half_made: Callable[[], None],
    ) -> Steps[tuple[Pointer, bytes] | None]:
        """The copy has a pointer of its own, which may replace another."""
        blob: Blob | None = None

        def make_link(pointer: Pointer, blob_folder: int) -> bytes:
            """The bytes of the object as a second blob: they never change, so a copy takes no space and no time. In
            the same folder, which is open."""
            nonlocal blob
            blob = Blob(self.root, target, beside=pointer.blob)
            os.utime(pointer.blob, dir_fd=blob_folder, follow_symlinks=False)
            _link(blob_folder, pointer.blob, blob.name)
            return read_file(blob_folder, blob.name, peek) if peek else b""

        try:
            found = self._follow(enter, source, make_link)
            if found is None:
                return None
            assert blob is not None
            pointer = found[0]._replace(blob=blob.name, modified_at=modified_at, id=blob.id)
            half_made()
            with enter(*_folder_of_blob(blob.name)) as blob_folder:
                yield from self.point(enter, target, pointer, blob, unsynced=(blob_folder,))
        except (Exception, asyncio.CancelledError):
            if blob is not None:
                blob.discard()
            raise
        return pointer, found[1]

    def _follow(self, enter: EnterFolder, key: str, use: Callable[[Pointer, int], Used]) -> tuple[Pointer, Used] | None:
        """The object's pointer, and the result of `use` for it and for the folder of its blob."""
        seen: Pointer | None = None
        while (pointer := self.find(key, enter)) is not None:
            try:
                with enter(*_folder_of_blob(pointer.blob)) as blob_folder:
                    return pointer, use(pointer, blob_folder)
            except FileNotFoundError:
                # Replaced between the two reads: the new pointer leads to the new bytes. Twice the same one does not.
                if pointer == seen:
                    raise _missing_bytes(key) from None
                seen = pointer
        return None

    def remove(self, enter: EnterFolder, *keys: str) -> Steps[None]:
        by_folder: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for key in keys:
            folders, name = _place(key)
            by_folder.setdefault(tuple(folders), []).append((name, key))
        paths = iter(by_folder.items())
        while some := [*islice(paths, _REMOVED_AT_ONCE)]:
            blobs: list[str | None] = []
            with ExitStack() as stack:
                parents = []
                for path, names in some:
                    with suppress(FileNotFoundError):
                        parent = stack.enter_context(enter(OBJECTS, *path))
                        blobs.extend(_unlink_pointer(parent, name, key) for name, key in names)
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
                key = _key([*names, *folders, name.removesuffix(_POINTER_SUFFIX)])
                with suppress(FileNotFoundError):
                    yield key, _read_pointer(parent, name, key)


def blob_name(pointer_id: str, key: str) -> str:
    """The blob of an object. All blobs of a pointer are in the same folder."""
    return pointer_id[:2] + hashlib.blake2b(f"{pointer_id}/{key}".encode(), digest_size=15).hexdigest()


def _missing_bytes(key: str) -> DamagedStorage:
    return DamagedStorage(f"the bytes of {key} are missing")


def _link(parent: int, name: str, second_name: str) -> None:
    os.link(name, second_name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)


def _unlink_pointer(parent: int, name: str, key: str) -> str | None:
    """Returns its blob."""
    blob = _blob_of(parent, name, key)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
    return blob


def _unlink_blob(enter: EnterFolder, blob: str) -> None:
    with suppress(FileNotFoundError), enter(*_folder_of_blob(blob)) as blob_folder:
        os.unlink(blob, dir_fd=blob_folder)


def _folder_of_blob(blob: str) -> tuple[str, str]:
    return BLOBS, blob[:2]


def _blob_of(parent: int, name: str, key: str) -> str | None:
    """A pointer that cannot be read does not prevent that the object is replaced or deleted."""
    with suppress(FileNotFoundError, DamagedStorage):
        return _read_pointer(parent, name, key).blob
    return None


def _read_pointer(parent: int, name: str, key: str) -> Pointer:
    content = read_file(parent, name, _POINTER_BYTES)
    try:
        fields = json.loads(content)
        pointer = Pointer(blob=blob_name(fields["id"], key), **fields)
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedStorage(f"{name} is not a pointer") from error
    if not _BLOB.fullmatch(pointer.blob):
        raise DamagedStorage(f"{name} is not a pointer")
    return pointer


def _place(key: str) -> tuple[list[str], str]:
    """The folders of an object, and the name of its pointer."""
    *folders, name = _path(key)
    return folders, name + _POINTER_SUFFIX


def _path(key: str) -> list[str]:
    """Capitals are spelt `~a`, since macOS takes `A` and `a` for the same file."""
    return _CAPITAL.sub(lambda capital: f"~{capital[0].lower()}", key).split("/")


def _key(path: list[str]) -> str:
    return "/".join(re.sub("~([a-z])", lambda escaped: escaped[1].upper(), segment) for segment in path)
