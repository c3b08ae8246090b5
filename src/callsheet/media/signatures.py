"""Signatures: what files of a type must contain at their beginning. Pure."""

from __future__ import annotations

import re

from callsheet.toolbox.media_types import SNIFFED_BYTES, media_type_of

# One container can hold either: an Ogg, an MP4 or a WebM without images is audio.
MOVING = frozenset({"audio", "video"})
# Formats that never contain a video.
SOUND_ONLY = frozenset({"audio/mpeg", "audio/wav", "audio/flac", "audio/aac"})
# Old and rare beginnings of formats that `media_type_of` knows by their usual one.
_RARE = (
    # QuickTime before it had a file type box, and segments of a stream.
    ("video", rb"....(?:moov|mdat|wide|free|skip|pnot|styp|sidx|moof)"),
    # A Matroska or WebM whose document type comes late.
    ("video", rb"\x1a\x45\xdf\xa3"),
    ("audio", rb"(?:RF64|BW64|RIFX)....WAVE"),
    # A frame of MPEG audio of any version and layer. Some programs write zeros before it.
    ("audio", rb"\x00{0,8000}\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff][\x00-\xef]"),
    ("audio", rb"APETAGEX|ADIF|\x56[\xe0-\xff]"),
    ("image", rb"II\+\x00|MM\x00\+"),
)
# Formats that neither `media_type_of` nor puremagic knows.
_UNLISTED = (
    ("image", rb"P[1-7Ff]\s|\xff\x0a|#\?(?:RADIANCE|RGBE)|\x00\x00[\x01\x02]\x00[\x01-\xff]\x00"),
    ("image", rb"\x01\xda[\x00\x01][\x01\x02]|\xabKTX|II(?:R[OS]|U\x00)|MMOR"),
    ("image", rb"\x00\x00\x00\x0c(?:JXL |jP  )|\xff\x4f\xff\x51"),
    # Targa has no signature, but few values of its header are allowed.
    ("image", rb".[\x00\x01][\x01-\x03\x09-\x0b].{13}[\x08\x0f\x10\x18\x20]"),
    # A transport stream, without and with time stamps.
    ("video", rb"\x47.{187}\x47.{187}\x47|....\x47.{191}\x47.{191}\x47"),
    ("video", rb"DKIF\x00\x00|\x06\x0e\x2b\x34"),
    ("audio", rb"#!AMR|caff\x00|DSD |FORM....AIF[FC]|MThd|\x0bw..[\x00-\xe3]"),
)
_RARE_MARKS, _UNLISTED_MARKS = (
    tuple((kind, re.compile(mark, re.DOTALL)) for kind, mark in marks) for marks in (_RARE, _UNLISTED)
)
# Brands of still images in the file type box of an ISO container.
_IMAGE_BRANDS = re.compile(rb"avi[fs]|he[iv][a-z]|m[is]f[12]|miaf|mi[aA][fF]|MiH[ABE]|MiPr|crx ")
_DRAWING = re.compile(rb"<(?:[A-Za-z][\w.-]*:)?svg[\s/>]")
_ARCHIVE = rb"PK(?:\x03\x04|\x05\x06|\x07\x08)"
# Types that are not media: the name of the type, and the first bytes of such a file.
_DOCUMENTS = tuple(
    (re.compile(name), re.compile(mark, re.DOTALL))
    for name, mark in (
        (r"application/(?:x-)?zip(?:-compressed)?|.*\+zip", _ARCHIVE),
        (r"application/vnd\.(?:openxmlformats-|oasis\.opendocument\.).*", _ARCHIVE),
        (r"application/pdf", rb".{0,1024}%PDF-"),
        (r"application/(?:x-)?gzip", rb"\x1f\x8b"),
        (r"application/x-7z-compressed", rb"7z\xbc\xaf\x27\x1c"),
        (r"application/(?:vnd\.|x-)?rar(?:-compressed)?", rb"Rar!\x1a\x07"),
        (r"model/gltf-binary", rb"glTF"),
    )
)
# Types that are text.
_TEXTS = tuple(
    (re.compile(name), re.compile(rb"(?:\xef\xbb\xbf)?\s*" + mark))
    for name, mark in (
        (r"(?:application|text)/xml|.*\+xml", rb"<"),
        (r"application/json|.*\+json", rb'[\[{"\d\-tfn]'),
        (r"text/.*", rb""),
    )
)
_CONTROL_CHARACTERS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_WIDE_TEXT = (b"\xff\xfe", b"\xfe\xff")


def may_be(found: str, main_type: str) -> bool:
    """Whether bytes of the type `found` may be declared as a type of this kind."""
    kind = found.partition("/")[0]
    return kind == main_type or ({kind, main_type} <= MOVING and not (main_type == "video" and found in SOUND_ONLY))


def known_format(main_type: str, beginning: bytes) -> str | None:
    """The well-known format of the bytes; None if there is none."""
    found = media_type_of(beginning[:SNIFFED_BYTES])
    if found == "video/mp4" and main_type == "image" and _has_image_brand(beginning):
        return "image/heif"
    return found or next((f"{kind}/*" for kind, mark in _RARE_MARKS if mark.match(beginning)), None)


def is_unlisted_format(main_type: str, beginning: bytes) -> bool:
    return any(may_be(f"{kind}/*", main_type) and mark.match(beginning) for kind, mark in _UNLISTED_MARKS)


def is_drawing(beginning: bytes) -> bool:
    return is_text(beginning) and _DRAWING.search(beginning) is not None


def is_archive(beginning: bytes) -> bool:
    return re.match(_ARCHIVE, beginning) is not None


def document_differs(mime_type: str, beginning: bytes) -> bool:
    """Whether the bytes are not what a type that is not media requires. False if the type is not known here."""
    for name, mark in _DOCUMENTS:
        if name.fullmatch(mime_type):
            return mark.match(beginning) is None
    for name, mark in _TEXTS:
        if name.fullmatch(mime_type):
            is_wide = beginning.startswith(_WIDE_TEXT)
            return not is_wide and not (is_text(beginning) and mark.match(beginning))
    return False


def is_text(beginning: bytes) -> bool:
    """Whether the bytes are text. No container of audio or video is text; a program that reads text as media treats
    it as a playlist or a script.
    """
    return bool(beginning) and len(beginning.translate(None, _CONTROL_CHARACTERS)) == len(beginning)


def _has_image_brand(beginning: bytes) -> bool:
    box = beginning[: min(int.from_bytes(beginning[:4], "big"), SNIFFED_BYTES * 4)]
    return any(_IMAGE_BRANDS.fullmatch(box[start : start + 4]) for start in range(8, len(box), 4))
