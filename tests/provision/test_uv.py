"""uv in place of pip."""

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.provision import wheels
from ascend_doctor.provision.installed import read_installed
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.uv import PipSettings, find_uv
from ascend_doctor.provision.wheels import Pip, UndatedError, hash_file
from tests.provision.small_world import wheel

LISTED = """:env:.find-links='/more wheels'
:env:.config-file='/dev/null'
download.timeout='30'
global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'
global.find-links='/wheels'
global.no-index='false'
global.timeout='15'
install.user='true'
"""


def test_pips_settings_are_given_to_uv() -> None:
    settings = PipSettings.parse(LISTED)
    assert settings.uv_options() == []
    assert settings.uv_variables() == {
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_FIND_LINKS": "/more,wheels",
        "UV_HTTP_TIMEOUT": "30",
    }
    assert settings.unknown_to_uv == settings.folder_index == ""
    assert PipSettings({"client-cert": "/me.pem"}).unknown_to_uv == "client-cert"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"extra-index-url": "https://x/simple file:///mirror/simple"}, "file:///mirror/simple"),
        ({"index-url": "/mirror/simple", "no-index": "1"}, ""),
    ],
)
def test_an_index_that_is_a_folder_has_no_days(settings: dict[str, str], expected: str) -> None:
    assert PipSettings(settings).folder_index == expected


class Index(http.server.SimpleHTTPRequestHandler):
    """PEP 700."""

    days: dict[str, str]
    digests: dict[str, str]

    def do_GET(self) -> None:
        name = self.path.strip("/").rpartition("/")[2]
        if self.path.startswith("/files/"):
            super().do_GET()
            return
        files: list[dict[str, Any]] = [
            {
                "filename": file.name,
                "url": f"/files/{file.name}",
                "hashes": {"sha256": self.digests[file.name]},
                **({"upload-time": f"{self.days[file.name]}T10:00:00Z"} if self.days else {}),
            }
            for file in Path(self.directory, "files").glob(f"{name}-*.whl")
        ]
        versions = [file["filename"].split("-")[1] for file in files]
        text = json.dumps(
            {"meta": {"api-version": "1.1"}, "name": name, "versions": versions, "files": files}
        ).encode()
        self.send_response(200 if files else 404)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, type[Index]]]:
    days, digests = {}, {}
    for version, day in (("1.0", "2026-01-10"), ("2.0", "2026-03-10")):
        file = wheel(tmp_path / "index/files", "thing", version)
        days[file.name], digests[file.name] = day, hash_file(file)
    handler = type("Handler", (Index,), {"days": days, "digests": digests})
    serving = functools.partial(handler, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serving) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple", handler
        server.shutdown()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    return folder


def pip_of(environment: Path, **settings: str) -> Pip:
    others = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env = {**others, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", **settings}
    return Pip(folder=environment, base=sys.executable, runner=Runner(env=env))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("day", "version"), [("2026-03-09", "1.0"), ("2026-03-10", "2.0"), ("", "2.0")]
)
def test_a_day_bounds_what_an_index_offers(
    day: str, version: str, index: tuple[str, type[Index]], environment: Path, tmp_path: Path
) -> None:
    pip = pip_of(environment, PIP_INDEX_URL=index[0])
    (file,) = pip.resolve(tmp_path / "scratch", ["thing"], [], day)
    assert file.file.name == f"thing-{version}-py3-none-any.whl"


@pytest.mark.slow
def test_without_days_there_is_no_day(
    index: tuple[str, type[Index]], environment: Path, tmp_path: Path
) -> None:
    index[1].days = {}
    pip = pip_of(environment, PIP_INDEX_URL=index[0])
    with pytest.raises(UndatedError, match="no days"):
        pip.resolve(tmp_path / "scratch", ["thing"], [], "2026-03-09")
    folder = pip_of(environment, PIP_EXTRA_INDEX_URL=f"file://{tmp_path}/index")
    with pytest.raises(UndatedError, match="file:"):
        folder.resolve(tmp_path / "scratch", ["thing"], [], "2026-03-09")


@pytest.mark.slow
def test_a_file_that_changes_on_its_way_is_refused(
    index: tuple[str, type[Index]], environment: Path, tmp_path: Path
) -> None:
    for file in (tmp_path / "index/files").glob("*.whl"):
        file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(CommandError, match="DO NOT MATCH THE HASHES"):
        pip_of(environment, PIP_INDEX_URL=index[0]).resolve(tmp_path / "s", ["thing"], [])


@pytest.mark.slow
def test_an_installed_wheel_has_its_hash_and_shares_no_file(tmp_path: Path) -> None:
    file = wheel(tmp_path / "w", "thing", "1.0")
    for name in ("a", "b"):
        subprocess.run([sys.executable, "-m", "venv", tmp_path / name], check=True, timeout=120)
        pip_of(tmp_path / name).install([file], over=False)
        there = read_installed(LiveMachine({}), str(tmp_path / name))["thing"]
        assert (there.version, there.sha256) == ("1.0", hash_file(file))
        (library,) = (tmp_path / name).glob("lib/python3*/site-packages")
        rows = (library / "thing-1.0.dist-info/RECORD").read_text()
        assert rows.count("direct_url.json,") == 1
        assert (library / "thing/__init__.py").stat().st_nlink == 1
        assert not (tmp_path / name / ".uv").exists()


@pytest.mark.slow
def test_without_uv_pip_does_the_same(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "find_uv", lambda _: None)
    file = wheel(tmp_path / "w", "thing", "1.0", "other")
    wheel(tmp_path / "w", "other", "1.0")
    pip = pip_of(environment, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "w"))
    downloads = pip.resolve(tmp_path / "scratch", ["thing"], ["other<2"])
    assert [download.file.name[:5] for download in downloads] == ["other", "thing"]
    pip.install([file], over=True)
    assert read_installed(LiveMachine({}), str(environment))["thing"].sha256 == hash_file(file)


def test_uv_is_looked_for_beside_the_doctor_and_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "none"))
    assert find_uv({"PATH": str(tmp_path)}) is None
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    assert find_uv({"PATH": f":.:{tmp_path}"}) == str(tmp_path / "uv")
