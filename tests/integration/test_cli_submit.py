"""`callsheet submit` and `callsheet watch`, as users run them beside a running demo: real files, real effects."""

from __future__ import annotations

import json
import shutil
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from callsheet.wire.job_errors import SENTENCES
from tests.support.media.clips import decode, farthest, flat, make_clip, make_image
from tests.support.media.sounds import analyze, sound
from tests.support.programs.commands import Callsheet, Result


@pytest.fixture(scope="module")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a demo that is running."""
    home = tmp_path_factory.mktemp("submit") / "home"
    with Callsheet(home.parent, HOME=str(home), MEDIA__PREVIEWS="false").running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        yield home
        ended = demo.end(signal.SIGINT)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err


@pytest.fixture
def callsheet(demo_home: Path, tmp_path: Path) -> Callsheet:
    """In a directory of its own, knowing no more than where the demo's data is."""
    return Callsheet(tmp_path, HOME=str(demo_home))


@pytest.fixture(scope="module")
def made_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("clip") / "my clip.mp4"
    make_clip(file, frames=12)
    return file


@pytest.fixture
def clip(made_clip: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made_clip, tmp_path))


def admin(home: Path) -> httpx.Client:
    login = json.loads((home / "demo" / "login.json").read_text())
    headers = {"authorization": f"Bearer {login['api_key']}"}
    return httpx.Client(base_url=login["url"], headers=headers, trust_env=False, timeout=30)


STAGES = ["queue", "lease", "render", "upload", "done"]


def stages(result: Result) -> list[str]:
    return [line.split()[-1] for line in result.err.splitlines() if " s  " in line]


def fetched(result: Result) -> Path:
    assert result.out.count("\n") == 1, result
    return Path(result.out.strip())


@pytest.mark.thorough
def test_a_video_comes_back_beside_the_one_that_was_sent(callsheet: Callsheet, clip: Path) -> None:
    done = callsheet.succeed("submit", "negative", str(clip), "--watch")
    assert fetched(done) == clip.with_name("my clip-negative.mp4")
    assert stages(done) == STAGES
    assert "The job cost 2 tokens" in done.err
    before, after = decode(clip), decode(fetched(done))
    assert len(after.frames) == len(before.frames) == 12
    assert max(farthest(255 - one, other) for one, other in zip(before.frames, after.frames, strict=True)) < 12
    assert after.pitch == pytest.approx(before.pitch, abs=5)
    # Once more overwrites nothing, and leaves no half of a file.
    again = callsheet.succeed("submit", "negative", clip.name, "--watch")
    assert fetched(again) == Path("my clip-negative-2.mp4")
    assert sorted(path.name for path in clip.parent.iterdir()) == [
        "my clip-negative-2.mp4",
        "my clip-negative.mp4",
        "my clip.mp4",
    ]


def test_text_is_written_on_the_video_unchanged(callsheet: Callsheet, clip: Path) -> None:
    words = 'He said "{{position}}" = 1 & ünï'
    done = callsheet.succeed("submit", "caption", clip.name, "--set", f"prompt={words}", "--watch", "-o", "out.mp4")
    assert fetched(done) == Path("out.mp4")
    before, after = decode(clip), decode(clip.with_name("out.mp4"))
    height = before.frames[0].shape[0]
    changed = np.abs(after.frames[5].astype(int) - before.frames[5]).max(axis=2) > 60
    assert changed[height * 2 // 3 :].any()
    assert not changed[: height // 3].any()


@pytest.mark.thorough
def test_a_users_own_image_is_laid_over_the_video(callsheet: Callsheet, clip: Path) -> None:
    Image.fromarray(flat(64, 64, (255, 0, 255))).save(clip.with_name("logo.png"))
    chosen = ("--set", "logo=logo.png", "--set", "position=top-left", "--set", "size=0.5")
    done = callsheet.succeed("submit", "watermark", clip.name, *chosen, "--watch", "--json").json
    [file] = done["files"]
    corner = decode(clip.with_name(file)).frames[6][20:40, 20:40].reshape(-1, 3).mean(axis=0)
    assert corner[1] < 90 < 160 < corner[0]
    ours = callsheet.succeed("submit", "watermark", clip.name, "--watch", "--json").json
    other = decode(clip.with_name(ours["files"][0])).frames[6]
    assert farthest(other[:40, :40], decode(clip).frames[6][:40, :40]) < 10


@pytest.mark.thorough
def test_a_file_name_of_the_maximum_length_is_shortened_for_the_result(callsheet: Callsheet, tmp_path: Path) -> None:
    make_image(tmp_path / f"{'ä' * 125}.png")
    done = callsheet.succeed("submit", "glow", f"{'ä' * 125}.png", "--watch")
    assert fetched(done) == Path(f"{'ä' * 65}-glow.png")
    assert (tmp_path / fetched(done)).exists()


@pytest.mark.thorough
def test_a_result_that_cannot_be_written_can_still_be_fetched(callsheet: Callsheet, tmp_path: Path) -> None:
    failed = callsheet.run("submit", "imagine", "--set", "prompt=a", "--watch", "-o", f"{'a' * 300}.png")
    assert (failed.code, failed.out) == (1, "")
    assert "cannot be written: File name too long. The job is done; fetch it with: callsheet watch " in failed.err
    job_id = failed.err.split("callsheet watch ")[1].split()[0]
    assert (tmp_path / fetched(callsheet.succeed("watch", job_id, "-o", "."))).exists()


@pytest.mark.thorough
def test_half_the_speed_doubles_the_length(callsheet: Callsheet, clip: Path) -> None:
    done = callsheet.succeed("submit", "slow-motion", clip.name, "--watch")
    before, after = decode(clip), decode(clip.with_name(fetched(done).name))
    assert (len(after.frames), after.rate) == (2 * len(before.frames), before.rate)
    assert after.sound_seconds == pytest.approx(2 * before.sound_seconds, abs=0.3)


@pytest.mark.thorough
def test_an_image_becomes_an_image(callsheet: Callsheet, tmp_path: Path) -> None:
    image = make_image(tmp_path / "photo.png")
    done = callsheet.succeed("submit", "glow", "photo.png", "--set", "strength=1", "--watch")
    after = np.asarray(Image.open(tmp_path / fetched(done)))
    assert after.shape == image.shape
    assert after.mean() > image.mean() + 10


@pytest.mark.thorough
def test_a_prompt_without_a_file_becomes_an_image(callsheet: Callsheet, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    chosen = ("--set", "prompt=mountains at dawn", "--set", "seed=7", "--watch", "-o", "results")
    done = callsheet.succeed("submit", "imagine", *chosen)
    assert fetched(done) == Path("results/imagine.png")
    with Image.open(tmp_path / "results" / "imagine.png") as image:
        assert image.size == (768, 512)


def test_a_job_can_be_submitted_without_waiting_and_watched_later(callsheet: Callsheet, clip: Path) -> None:
    left = callsheet.succeed("submit", "noir", clip.name)
    job_id = left.out.strip().split()[-1]
    first = callsheet.succeed("watch", job_id, "-o", "first.mp4")
    # The job has ended by now, and its history is still shown from the beginning.
    second = callsheet.succeed("watch", job_id)
    assert stages(first) == stages(second) == STAGES
    one, other = clip.with_name("first.mp4"), clip.with_name(fetched(second).name)
    assert one.read_bytes() == other.read_bytes()


def test_several_files_are_one_batch_whose_results_are_in_one_directory(callsheet: Callsheet, tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        make_image(tmp_path / name)
    wrong = callsheet.run("submit", "glow", "one.png", "missing.png", "--watch")
    assert (wrong.code, wrong.err) == (1, "callsheet: There is no file missing.png.\n")
    done = callsheet.succeed("submit", "glow", "one.png", "two.png", "--set", "strength=1", "--watch", "-o", "glowing")
    assert done.out.splitlines() == ["glowing/0001-one.png", "glowing/0002-two.png"]
    assert "2 items: 2 completed." in done.err
    assert done.err.startswith("2 files for 2 tokens; you have ")
    with Image.open(tmp_path / "glowing" / "0002-two.png") as image:
        image.verify()
    [batch, *_] = json.loads(callsheet.succeed("batches", "list", "--json", "--status", "finished").out)
    assert callsheet.succeed("batches", "list", "--json", "--effect", "no-such-effect").out.strip() == "[]"
    assert batch["counts"]["completed"] == 2
    assert "is finished. 2 items: 2 completed." in callsheet.succeed("batches", "show", batch["id"]).out
    archive = tmp_path / callsheet.succeed("batches", "download", batch["id"]).out.strip()
    assert zipfile.ZipFile(archive).namelist() == ["0001 one.png", "0002 two.png"]
    again = callsheet.succeed("batches", "watch", batch["id"], "-o", "glowing")
    assert again.out == done.out
    for verb in ("cancel", "retry"):
        assert "2 completed" in callsheet.succeed("batches", verb, batch["id"]).out


def flipping() -> dict[str, Any]:
    """A graph that turns a video upside down."""
    return {
        "1": {"class_type": "LoadVideo", "inputs": {"file": "some.mp4"}},
        "2": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
        "3": {"class_type": "ImageFlip", "inputs": {"image": ["2", 0], "flip_method": "x-axis: vertically"}},
        "4": {"class_type": "CreateVideo", "inputs": {"images": ["3", 0], "fps": ["2", 2], "audio": ["2", 1]}},
        "5": {
            "class_type": "SaveVideo",
            "inputs": {"video": ["4", 0], "filename_prefix": "video/x", "format": "auto", "codec": "auto"},
        },
    }


@pytest.mark.thorough
def test_a_sound_becomes_a_sound(callsheet: Callsheet, tmp_path: Path) -> None:
    """From the export of a graph to the result, with a sound as the main file and another as a value."""
    graph = {
        "1": {"class_type": "LoadAudio", "inputs": {"audio": "voice.mp3", "audioUI": ""}},
        "2": {"class_type": "LoadAudio", "inputs": {"audio": "other.mp3", "audioUI": ""}},
        "3": {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "x"}},
        "4": {"class_type": "PreviewAudio", "inputs": {"audio": ["2", 0]}},
    }
    (tmp_path / "voice.json").write_text(json.dumps(graph))
    shown = callsheet.call("workflows", "import", str(tmp_path / "voice.json"), "--yes").out
    assert "The result is what node 3 (SaveAudio) saves, as .flac.\n" in shown
    assert callsheet.call("effects", "create", "voice", "--workflow", "voice", "--cost", "5", "--publish").code == 0
    assert callsheet.call("fleets", "assign", "demo", "voice").code == 0
    for name, pitch in (("song.mp3", 660.0), ("other.wav", 440.0)):
        (tmp_path / name).write_bytes(sound(name.rpartition(".")[2], 1.0, pitch))
    done = callsheet.succeed("submit", "voice", "song.mp3", "--set", "audio=other.wav", "--watch")
    result = tmp_path / fetched(done)
    assert result.name == "song-voice.flac"
    assert analyze(result.read_bytes()).pitch == pytest.approx(660.0, abs=5)
    make_image(tmp_path / "cover.png")
    refused = callsheet.call("submit", "voice", "cover.png", "--set", "audio=other.wav").sentence
    assert refused.startswith("voice works on an audio file; cover.png is image/png")
    refused = callsheet.call("submit", "voice", "song.mp3", "--set", "audio=cover.png").sentence
    assert refused == "audio: cover.png is image/png. Use an audio file."


@pytest.fixture
def held(callsheet: Callsheet, tmp_path: Path) -> str:
    """An effect whose jobs wait until an operator assigns its workflow to a fleet: no worker may take them."""
    (tmp_path / "held.json").write_text(json.dumps(flipping()))
    assert callsheet.call("workflows", "import", str(tmp_path / "held.json"), "--yes").code == 0
    assert callsheet.call("effects", "create", "held", "--workflow", "held", "--cost", "5", "--publish").code == 0
    return "held"


def test_ctrl_c_leaves_the_job_running_and_prints_the_command_to_continue(
    callsheet: Callsheet, clip: Path, held: str
) -> None:
    # Progress is printed at once, also into a pipe: the command does not end here, so nothing else would flush it.
    with callsheet.running("submit", held, clip.name, "--watch") as watching:
        watching.wait_for(" s  queue")
        ended = watching.end(signal.SIGINT)
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err
    hint = next(line for line in ended.err.splitlines() if "callsheet watch" in line)
    [fleet] = [each for each in callsheet.call("fleets", "list", "--json").json if each["slug"] == "demo"]
    assert callsheet.call("fleets", "assign", "demo", *fleet["workflows"], held).code == 0
    done = callsheet.succeed("watch", hint.split()[-1], "--json").json
    assert (done["status"], len(done["files"])) == ("completed", 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nope", "my clip.mp4"), "There is no effect 'nope'. Available: caption, glow, golden-hour"),
        (("../me", "my clip.mp4"), "There is no effect '../me'."),
        (("caption", "my clip.mp4"), "prompt: caption needs a value"),
        (("caption", "my clip.mp4", "--set", "foo=1"), "foo: caption has no such property. It has: prompt, position."),
        (("caption", "my clip.mp4", "--set", "prompt"), "--set takes KEY=VALUE"),
        (("caption", "my clip.mp4", "--set", "prompt=a", "--set", "position=left"), "position: 'left' is not allowed"),
        (("slow-motion", "my clip.mp4", "--set", "speed=fast"), "speed: 'fast' is not a number"),
        (("watermark", "my clip.mp4", "--set", "logo=nothing.png"), "logo: There is no file nothing.png"),
        (("watermark", "my clip.mp4", "--set", "logo=my clip.mp4"), "logo: my clip.mp4 is video/mp4. Use an image."),
        (("glow", "my clip.mp4"), "glow works on an image; my clip.mp4 is video/mp4"),
        (("negative",), "negative works on a video: name the file"),
        (("negative", "nothing.mp4"), "There is no file nothing.mp4"),
        (("negative", "."), "There is no file ."),
        (("imagine", "my clip.mp4", "--set", "prompt=a"), "imagine takes no file"),
        (("imagine", "--set", "prompt=a", "--watch", "-o", "nowhere/a.png"), "There is no directory nowhere."),
        (("imagine", "--set", "prompt=a", "-o", "a.png"), "--output needs --watch"),
        (("imagine", "--set", f"prompt={'a' * 1001}"), "prompt: The text has 1001 characters. The limit is 1000."),
        (("slow-motion", "my clip.mp4", "--set", "speed=99"), "speed: The value must be 10 or less"),
        (("slow-motion", "my clip.mp4", "--set", "speed=NaN"), "speed: 'NaN' is not a number"),
        (("slow-motion", "my clip.mp4", "--set", "speed=1e999"), "speed: '1e999' is not a number"),
        (("watermark", "my clip.mp4", "--set", f"logo={'a' * 5000}"), "logo: There is no file aaa"),
    ],
)
def test_a_wrong_command_prints_one_sentence_before_anything_is_sent(
    callsheet: Callsheet, clip: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(clip.parent)
    assert sentence in callsheet.call("submit", *arguments).sentence


def test_a_refusal_of_the_control_plane_names_the_property(callsheet: Callsheet, clip: Path) -> None:
    refused = callsheet.run("submit", "caption", clip.name, "--set", "prompt=\x07")
    assert (refused.code, refused.out) == (1, "")
    assert "callsheet: prompt: The text must not contain control characters." in refused.err


@pytest.mark.thorough
def test_a_file_whose_content_contradicts_its_name_is_refused(callsheet: Callsheet, tmp_path: Path) -> None:
    (tmp_path / "fake.mp4").write_bytes(b"%PDF-1.7 not a video at all" * 20)
    refused = callsheet.run("submit", "negative", "fake.mp4", "--watch")
    assert refused.code == 1
    assert "look like application/pdf" in refused.err
    (tmp_path / "empty.mp4").touch()
    assert "empty.mp4 is empty" in callsheet.run("submit", "negative", "empty.mp4").err


def test_a_video_that_cannot_be_decoded_fails_with_a_reason_and_costs_nothing(
    callsheet: Callsheet, clip: Path, demo_home: Path
) -> None:
    whole = clip.read_bytes()
    clip.with_name("broken.mp4").write_bytes(whole[: len(whole) // 3])
    with admin(demo_home) as http:
        before = http.get("/api/wallet").json()["balance"]
        failed = callsheet.run("submit", "negative", "broken.mp4", "--watch")
        assert http.get("/api/wallet").json()["balance"] == before
    assert (failed.code, failed.out) == (1, "")
    assert f"has failed: {SENTENCES['execution_error']}" in failed.err
    assert "Invalid data" not in failed.err
    assert "2 tokens were refunded." in failed.err


def poor_key(home: Path, callsheet: Callsheet) -> str:
    email = "poor@demo.example"
    callsheet.call("users", "create", email, "--tenant", "demo", "--password-stdin", input="long enough to keep")
    return str(callsheet.call("keys", "create", "--user", email).out.split()[-1])


def test_without_tokens_nothing_is_uploaded(callsheet: Callsheet, clip: Path, demo_home: Path) -> None:
    login: dict[str, Any] = json.loads((demo_home / "demo" / "login.json").read_text())
    key = poor_key(demo_home, callsheet)
    elsewhere = Callsheet(clip.parent, HOME=str(clip.parent / "no home"), CLIENT__URL=login["url"])
    assert "CALLSHEET_CLIENT__API_KEY" in elsewhere.refuse("submit", "negative", clip.name)
    poor = elsewhere.having(CLIENT__API_KEY=key)
    assert poor.refuse("submit", "negative", clip.name) == "negative costs 2 tokens, and you have 0."
    assert "key is missing, wrong or revoked" in elsewhere.having(CLIENT__API_KEY="cs_no").refuse("submit", "negative")
    # A job of another user is reported like a job that does not exist.
    job = callsheet.succeed("submit", "imagine", "--set", "prompt=mine", "--client-reference", "order 7", "--json").json
    assert job["client_reference"] == "order 7"
    job_id = job["id"]
    assert "There is no such job" in poor.refuse("watch", job_id)
    assert not (clip.parent / "no home").exists()


@pytest.mark.thorough
def test_a_users_own_graph_runs_on_the_users_own_engine(
    callsheet: Callsheet, clip: Path, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/how-to/connect-comfyui.md, step by step: the engine and its worker are processes of their own."""
    clip.with_name("turn.json").write_text(json.dumps(flipping()))
    for command in (
        ("workflows", "import", str(clip.with_name("turn.json")), "--yes"),
        ("effects", "create", "turn", "--workflow", "turn", "--cost", "5", "--publish"),
        ("fleets", "create", "gpu", "turn"),
    ):
        assert callsheet.call(*command).code == 0
    secret = callsheet.call("fleets", "secret").out.strip()
    url = json.loads((demo_home / "demo" / "login.json").read_text())["url"]
    box = clip.parent / "gpu box"
    elsewhere = Callsheet(clip.parent, HOME=str(box), LOG__LEVEL="debug")
    with elsewhere.running("lightbox", "--port", "0") as engine:
        address = engine.wait_for("renders at").split("renders at ")[1].split()[0]
        given = {"API_BASE_URL": url, "FLEET_SECRET": secret, "FLEET_SLUG": "gpu", "COMFYUI_BASE_URL": address}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with elsewhere.running("worker", "--id", "gpu-1") as worker:
            worker.wait_for("worker.ready")
            shown = {each["worker_id"]: each for each in callsheet.call("workers", "list", "--json").json}
            token = json.loads((box / "worker" / "gpu-1" / "token.json").read_text())["token"]
            assert (shown["gpu-1"]["is_live"], shown["gpu-1"]["workflows"]) == (True, ["turn"])
            done = callsheet.succeed("submit", "turn", clip.name, "--watch")
            ended = worker.end(signal.SIGTERM)
        assert (ended.code, engine.end(signal.SIGINT).code) == (0, 0)
    before, after = decode(clip), decode(clip.with_name(fetched(done).name))
    assert "The job cost 5 tokens" in done.err
    assert max(farthest(one[::-1], other) for one, other in zip(before.frames, after.frames, strict=True)) < 12
    assert after.pitch == pytest.approx(before.pitch, abs=5)
    assert "gpu-1" not in [each["worker_id"] for each in callsheet.call("workers", "list", "--json").json]
    # The log has every event, and no secret.
    assert "engine.call" in ended.err
    for hidden in (secret, token, "lease_token", "signature=", "Bearer"):
        assert hidden not in ended.err


def test_a_task_is_submitted_watched_and_its_result_printed(callsheet: Callsheet) -> None:
    done = callsheet.succeed("task", "copy", "--set", "product.title=Desk lamp", "--set", "length=short", "--watch")
    assert done.json["text"].startswith("Meet Desk lamp.")
    assert "The job cost 1 token" in done.err
    # Later, by its own id.
    lamp = ("--set", "product.title=Desk lamp")
    task = callsheet.succeed("task", "copy", *lamp, "--client-reference", "order 8", "--json").json
    assert task["client_reference"] == "order 8"
    assert callsheet.succeed("watch", task["task_id"]).json["written_by"] == "template"
    # The same shape, whether or not it is watched.
    watched = callsheet.succeed("task", "copy", "--set", "product.title=Desk lamp", "--watch", "--json").json
    assert watched.keys() == task.keys() == callsheet.succeed("watch", task["task_id"], "--json").json.keys()
    assert (watched["status"], watched["files"], watched["balance"]) == ("completed", [], task["balance"] - 1)
    assert watched["result"]["data"]["written_by"] == "template"
    assert callsheet.refuse("task", "copy", "--watch") == "product: This field is required."
    assert "Available: copy, media, scrape" in callsheet.refuse("task", "juggle")


@pytest.mark.thorough
def test_the_error_names_a_control_plane_that_does_not_respond(tmp_path: Path, clip: Path) -> None:
    callsheet = Callsheet(tmp_path, CLIENT__API_KEY="cs_any", CLIENT__URL="http://127.0.0.1:1")
    assert callsheet.refuse("submit", "negative", clip.name).startswith(
        "No control plane responds at http://127.0.0.1:1"
    )
    assert callsheet.refuse("watch", "nonsense") == "'nonsense' is not the id of a job or task."


def test_a_quote_shows_the_price_the_wait_and_what_is_missing(callsheet: Callsheet, clip: Path) -> None:
    shown = callsheet.succeed("quote", "negative", str(clip)).out
    assert shown.startswith("The job costs 2 tokens. You have ")
    assert "A worker is free." in shown
    assert "missing" not in shown
    assert "my clip.mp4: not uploaded, because the price does not depend on it." in shown
    assert "0 bytes of 10.0 GiB" in shown or "MiB of 10.0 GiB" in shown or "KiB of 10.0 GiB" in shown
    quote = json.loads(callsheet.succeed("quote", "negative", "--json").out)
    assert (quote["cost"], quote["can_submit"]) == (2, False)
    assert [each["field"] for each in quote["missing"]] == ["input_file_id"]
