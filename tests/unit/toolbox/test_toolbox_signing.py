import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.signing import derive_key, sha256_hex, sign, verify

KEY = b"k" * 32
ANY_TEXT = st.text(st.characters())
PARTS = st.lists(ANY_TEXT | st.binary(), max_size=5)


def test_a_derived_key_is_hkdf_sha256_of_rfc_5869() -> None:
    extracted = hmac.digest(b"callsheet.signing.v1", b"master", hashlib.sha256)
    assert derive_key(b"master", "urls") == hmac.digest(extracted, b"urls\x01", hashlib.sha256)


@given(st.binary(min_size=1), st.text(), st.text())
def test_every_purpose_and_every_master_has_its_own_key(master: bytes, purpose: str, other: str) -> None:
    key = derive_key(master, purpose)
    assert len(key) == 32
    assert (key == derive_key(master, other)) == (purpose == other)
    assert key != derive_key(master + b"x", purpose)


def test_an_empty_master_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        derive_key(b"", "urls")


@given(PARTS)
def test_a_signature_verifies_and_is_url_safe(parts: list[str | bytes]) -> None:
    signature = sign(KEY, *parts)
    assert verify(KEY, signature, *parts)
    assert len(signature) == 43
    assert signature.replace("-", "").replace("_", "").isalnum()


def as_bytes(parts: list[str | bytes]) -> list[bytes]:
    return [part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts]


@given(PARTS, PARTS)
def test_different_parts_have_different_signatures(parts: list[str | bytes], others: list[str | bytes]) -> None:
    assert verify(KEY, sign(KEY, *parts), *others) == (as_bytes(parts) == as_bytes(others))


@given(st.text(min_size=1), st.data())
def test_text_cannot_move_from_one_part_to_the_next(text: str, data: st.DataObject) -> None:
    first, second = (data.draw(st.integers(0, len(text))) for _ in range(2))
    same = verify(KEY, sign(KEY, text[:first], text[first:]), text[:second], text[second:])
    assert same == (first == second)
    assert not verify(KEY, sign(KEY, text[:first], text[first:]), text)


@given(ANY_TEXT, PARTS)
def test_an_invalid_signature_does_not_verify(signature: str, parts: list[str | bytes]) -> None:
    assert verify(KEY, signature, *parts) is False


@pytest.mark.parametrize("rubbish", ["", "é", "\udc80", "\x00", "=" * 43, "a" * 1_000_000])
def test_hostile_signatures_do_not_raise(rubbish: str) -> None:
    assert verify(KEY, rubbish, "part") is False


def test_a_signature_has_one_spelling_only() -> None:
    signature = sign(KEY, "part")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    accepted = [last for last in alphabet if verify(KEY, signature[:-1] + last, "part")]
    assert accepted == [signature[-1]]
    assert not verify(KEY, signature + "=", "part")


def test_another_key_does_not_verify() -> None:
    assert not verify(b"other", sign(KEY, "part"), "part")


def test_sha256_hex_takes_text_and_bytes() -> None:
    assert sha256_hex("é") == sha256_hex("é".encode()) == hashlib.sha256("é".encode()).hexdigest()
