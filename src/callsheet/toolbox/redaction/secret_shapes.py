"""Recognizes secrets by their form: prefixes of vendors, key blocks, and random text. Pure.

Every repetition is bounded or stops at a character that cannot be part of it, so that a megabyte of hostile text takes
time in proportion to its length.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

MASK: Final = "***"

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# The prefix of a vendor's secrets, and the rest. If words may follow too, one run of characters is longer than words
# are.
VENDOR_SHAPES: Final = (
    # Callsheet: API keys and browser sessions, then stream tokens.
    r"cs[a-z]?_[A-Za-z0-9]{24,}",
    r"cst_[A-Za-z0-9_.-]{24,}",
    # AWS: access keys, also the start of one that was cut off, temporary ones, and session tokens.
    r"(?:AKIA[0-9A-Z]{6,124}|A(?:SIA|ROA|IDA|BIA|CCA)[0-9A-Z]{16,124})",
    r"(?:FwoG|IQoJ)[A-Za-z0-9/+=]{40,}",
    # Replicate, Hugging Face, Runpod, Groq, Fireworks, Together.
    r"(?:r8|hf|api_org|rpa|gsk|fw|tgp_v1)_[A-Za-z0-9]{16,}",
    # OpenAI, Anthropic, OpenRouter, Langfuse.
    r"[spr]k-[A-Za-z0-9_-]{0,40}?[A-Za-z0-9]{12,}[A-Za-z0-9_-]*",
    # Comfy, NVIDIA, xAI, Perplexity, Mailgun, Luma, fal.
    r"(?:comfyui|nvapi|xai|pplx|key)-[A-Za-z0-9_]{24,}",
    rf"luma-{_UUID}[0-9a-f-]*",
    rf"{_UUID}:[0-9a-f]{{32,64}}",
    # Payments, and what their webhooks are signed with.
    r"[spr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}",
    # Code hosting, registries, deployment, monitoring.
    r"gh[a-z]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|cbt|ptt|soat|agent)-[A-Za-z0-9_-]{16,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{40,}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    r"do[opr]_v1_[a-f0-9]{40,}",
    r"dapi[a-f0-9]{32}",
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
    r"(?:sntrys|glc|glsa|sbp|pscale_(?:tkn|pw)|lin_api|figd|ntn|rnd|secret)_[A-Za-z0-9]{20,}[A-Za-z0-9_=+/-]*",
    r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,}",
    r"(?:PMAK|NRAK|CFPAT|AGE-SECRET-KEY)-[A-Za-z0-9_-]{20,}",
    r"AT[AC]TT3x[A-Za-z0-9_=-]{20,}",
    # Google.
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_.-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    # Messengers and mail.
    r"xox[a-z]-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{32,}",
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    # JSON Web Tokens, cut ones too.
    r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}",
    # Hashes of passwords.
    r"\$(?:2[abxy]|argon2(?:id|i|d)|scrypt|6|5|y)\$[A-Za-z0-9$./+=,]{20,}",
)
_VENDOR = "|".join(VENDOR_SHAPES)
_VENDORS = re.compile(rf"(?<![A-Za-z0-9])(?:{_VENDOR})")
# The characters before a secret may be letters: the "n" of an escaped line break in a printed text, the "D" of an
# encoded "=" in a URL, the "m" that ends a color on a terminal.
_ESCAPED_VENDORS = re.compile(
    r"(\\(?:[abfnrtv0]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2}|\[[0-9;]{0,20}m)" + rf"(?:{_VENDOR})"
)

_PLAIN = re.compile(r"[a-z_-]+")
# A block that was cut off is masked to its end.
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
# URLs that are secrets as a whole: anyone who knows them may post.
_WEBHOOK = re.compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{5,25}/)[\w/-]{8,200}")
_BASIC = re.compile(r"(\bbasic\s{1,3})([A-Za-z0-9+/_-]{4,2000}={0,2})", re.IGNORECASE)
_BEARER = re.compile(r"(\b(?:bearer|apikey)\s{1,3})([\w.~+/=-]{8,})", re.IGNORECASE)

# A text of 32 letters and digits that a person wrote contains words. Generated texts change between upper case, lower
# case and digits at 6 of 10 places, CamelCase with numbers at 3 of 10. Checksums have a name that shows what they are.
_CHECKSUM = r"(?<![A-Za-z0-9+/_-])((?:sha-?\d{1,3}|md5|crc\d{1,3}|checksum)[\"']?\s?[-:=]\s?[\"']?)?"
_LONG_RUNS = (
    re.compile(_CHECKSUM + r"([A-Za-z0-9_-]{32,}={0,2})", re.IGNORECASE),
    re.compile(_CHECKSUM + r"([A-Za-z0-9+/]{32,}={0,2})", re.IGNORECASE),
)
_CHANGES = re.compile(r"(?=[a-z][A-Z0-9]|[A-Z][a-z0-9]|[0-9][A-Za-z])")
_MIN_CHANGES = 0.4


def mask_shapes(text: str) -> str:
    """The text with everything masked that looks like a secret."""
    text = _PRIVATE_KEY.sub(MASK, text)
    # A name that a person wrote, like hf_transformers_examples, has neither digits nor capitals.
    text = _VENDORS.sub(lambda found: found[0] if _PLAIN.fullmatch(found[0]) else MASK, text)
    text = _ESCAPED_VENDORS.sub(rf"\1{MASK}", text)
    text = _BASIC.sub(_unless(_is_word), text)
    text = _BEARER.sub(_unless(_is_word), text)
    text = _WEBHOOK.sub(rf"\1{MASK}", text)
    for run in _LONG_RUNS:
        text = run.sub(lambda found: found[0] if found[1] or not seems_generated(found[2]) else MASK, text)
    return text


def seems_generated(text: str) -> bool:
    """Whether the text is generated: upper case, lower case and digits change all the time."""
    if text.isalpha() or text.lower() == text or text.upper() == text:
        return False
    letters = sum(map(str.isalnum, text))
    return letters >= 24 and len(_CHANGES.findall(text)) >= _MIN_CHANGES * letters


def _unless(is_harmless: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    return lambda found: found[0] if is_harmless(found[2]) else found[1] + MASK


def _is_word(text: str) -> bool:
    """Whether this is one word of letters, as in "Basic authentication" and "a bearer of news", and not
    user:password in base64.
    """
    if not text.isalpha() or len(text) > 24 or not (text.islower() or text.istitle()):
        return False
    try:
        return b":" not in base64.b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return True
