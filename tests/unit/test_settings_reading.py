"""Settings from variables and files: all problems at once, and never the value of a secret."""

from dataclasses import dataclass

import pytest

from agents.configuration.agent_settings import AgentVariables
from agents.configuration.declaration import Secrecy, SettingReader, names_of, setting
from agents.configuration.names import misspelt_settings, unknown_settings
from agents.configuration.reading import (
    MAX_FILE_BYTES,
    SettingsError,
    SettingSource,
    read_settings,
)
from agents.configuration.value_kinds import (
    NETWORKS,
    NUMBER,
    RATE,
    TIME_ZONE,
    choice,
    url,
    whole_number,
)
from portal.configuration.report import known_names
from portal.demo.preflight import UnsuitableMachine, port_from
from portal.platform import Platform, platform_from, with_password

WEB = SettingReader.WEB
SECRET = "correct horse battery staple"


@dataclass(frozen=True)
class Shop:
    days: int = setting(7, "Days.", readers=WEB)
    is_open: bool = setting(True, "Open.", readers=WEB)
    hosts: tuple[str, ...] = setting(("a",), "Hosts.", readers=WEB)
    key: str = setting("", "Key.", readers=WEB, secrecy=Secrecy.WHOLE)
    old_keys: tuple[str, ...] = setting((), "Keys.", readers=WEB, secrecy=Secrecy.WHOLE)
    address: str = setting("", "Server.", kind=url("redis"), readers=WEB, secrecy=Secrecy.URL)


def read(**environ: str) -> Shop:
    return read_settings(Shop, environ).required()


def problem(**environ: str) -> str:
    with pytest.raises(SettingsError) as raised:
        read(**environ)
    assert raised.value.__cause__ is None or SECRET not in repr(raised.value.__cause__)
    return str(raised.value)


def test_values_are_read_as_the_kind_of_their_default():
    shop = read(TESSERA_DAYS="3", TESSERA_IS_OPEN="False", TESSERA_HOSTS="a.org, b.org,")
    assert (shop.days, shop.is_open, shop.hosts) == (3, False, ("a.org", "b.org"))


def test_what_is_empty_counts_as_not_set():
    # docker-compose.yml passes each setting, and those that .env lacks are empty.
    assert read(TESSERA_DAYS="", TESSERA_HOSTS=" ", TESSERA_KEY="", TESSERA_KEY_FILE="") == Shop()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_a_secret_is_read_from_a_file_without_its_last_line_break(tmp_path, ending):
    (tmp_path / "key").write_text(f" {SECRET}{ending}")
    reading = read_settings(Shop, {"TESSERA_KEY_FILE": str(tmp_path / "key")})
    assert reading.required().key == f" {SECRET}"
    assert reading.sources["TESSERA_KEY"] == SettingSource.FILE
    assert reading.sources["TESSERA_DAYS"] == SettingSource.DEFAULT


def test_a_file_of_several_secrets_has_one_a_line(tmp_path):
    (tmp_path / "keys").write_text("one\ntwo\n")
    assert read(TESSERA_OLD_KEYS_FILE=str(tmp_path / "keys")).old_keys == ("one", "two")


def test_a_secret_from_two_places_is_an_error(tmp_path):
    (tmp_path / "key").write_text(SECRET)
    found = problem(TESSERA_KEY=SECRET, TESSERA_KEY_FILE=str(tmp_path / "key"))
    assert found == "TESSERA_KEY and TESSERA_KEY_FILE are both set: keep one of them"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "is not a text in UTF-8"),
        (b"x" * (MAX_FILE_BYTES + 1), "is larger than 64 KiB"),
        (f"{SECRET}\nanother".encode(), "its content must be a text, in one line"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_its_content(tmp_path, content, words):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    found = problem(TESSERA_KEY_FILE=str(path))
    assert found.startswith("TESSERA_KEY_FILE: ") and words in found and SECRET not in found


def test_a_folder_and_what_is_no_path_are_named():
    assert "cannot be read (Is a directory)" in problem(TESSERA_KEY_FILE="/")
    assert "cannot be read (not a path)" in problem(TESSERA_KEY_FILE="a\0b")


def test_all_problems_are_named_at_once_with_what_is_allowed(tmp_path):
    found = problem(
        TESSERA_DAYS="-1",
        TESSERA_IS_OPEN="perhaps",
        TESSERA_KEY_FILE=str(tmp_path / "none"),
        TESSERA_ADDRESS=f"redis://:{SECRET}/x@host:port",
    ).splitlines()
    assert found[0] == "TESSERA_DAYS='-1' must be a whole number, 0 or more"
    assert found[1] == "TESSERA_IS_OPEN='perhaps' must be `true` or `false`"
    assert found[2].startswith("TESSERA_KEY_FILE: ")
    assert found[3] == "TESSERA_ADDRESS must be a URL that begins with `redis://`"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (whole_number(1), ("1", "007"), ("0", "-3", "1.5", "x")),
        (NUMBER, ("0", "2.5"), ("-1", "inf", "nan", "x")),
        (choice("own", "all"), ("own",), ("OWN", "both")),
        (url("https"), ("https://a.org", "https://a.org:8443/b"), ("a.org", "http://a.org")),
        (url(), ("filesystem://", "smtp+tls://u:p@h:587"), ("host:587", "smtp://h:many")),
        (RATE, ("5/s", "1200/min", "9/day"), ("0/min", "many/min", "5", "5/week")),
        (NETWORKS, ("10.0.0.0/8", "10.0.0.0/8, fd00::/8"), ("10.0.0.1/8", "example.org")),
        (TIME_ZONE, ("UTC", "Europe/Berlin"), ("Berlin", "/etc/passwd")),
    ],
)
def test_kinds_take_what_they_name_and_nothing_else(kind, good, bad):
    for text in good:
        kind.parse(text)
    for text in bad:
        with pytest.raises(ValueError, match=r".*"):
            kind.parse(text)


def test_a_misspelt_name_is_found_with_the_nearest_right_one():
    known = names_of(Platform)
    names = ["TESSERA_LEASE_SECOND", "TESSERA_MAX_STREAMS", "HOME", "TESSERA_XYZZY"]
    assert unknown_settings([*names, "TESSERA_LEASE_SECONDS_FILE"], known) == [
        "TESSERA_LEASE_SECOND is not a setting, so it is ignored: did you mean "
        "TESSERA_LEASE_SECONDS?",
        "TESSERA_LEASE_SECONDS_FILE is ignored: only secrets are read from files",
        "TESSERA_XYZZY is not a setting, so it is ignored",
    ]


@pytest.mark.parametrize(
    ("address", "joined"),
    [
        ("redis://counts@redis:6379/0", "redis://counts:a%2Fb%40c@redis:6379/0"),
        ("redis://redis", "redis://:a%2Fb%40c@redis"),
        ("redis://u:own@redis:1", "redis://u:own@redis:1"),
        ("filesystem://", "filesystem://"),
        ("sqlite:////var/db", "sqlite:////var/db"),
        (
            "postgres://t@[::1]:5/n?sslmode=require",
            "postgres://t:a%2Fb%40c@[::1]:5/n?sslmode=require",
        ),
        ("", ""),
    ],
)
def test_a_password_of_its_own_completes_the_url_of_its_server(address, joined):
    assert with_password(address, "a/b@c") == joined


def test_passwords_of_servers_come_from_files(tmp_path):
    for name in ("db", "redis", "broker"):
        (tmp_path / name).write_text(f"p:{name}\n")
    platform = platform_from(
        {
            "TESSERA_DATABASE_URL": "postgres://t@db/t",
            "TESSERA_DIRECT_DATABASE_URL": "postgres://t@direct/t",
            "TESSERA_DB_PASSWORD_FILE": str(tmp_path / "db"),
            "TESSERA_REDIS_URL": "redis://counts@r",
            "TESSERA_REDIS_PASSWORD_FILE": str(tmp_path / "redis"),
            "TESSERA_BROKER_URL": "redis://broker@r",
            "TESSERA_BROKER_PASSWORD_FILE": str(tmp_path / "broker"),
        }
    )
    assert platform.database_url == "postgres://t:p%3Adb@db/t"
    assert platform.direct_database_url == "postgres://t:p%3Adb@direct/t"
    assert platform.redis_url == "redis://counts:p%3Aredis@r"
    assert platform.broker_url == "redis://broker:p%3Abroker@r"
    assert "p%3A" not in repr(platform) and "p:" not in repr(platform)


def test_an_agent_is_told_of_its_misspelt_variables_and_of_no_other_programs():
    of_agent = names_of(AgentVariables)
    (sentence,) = misspelt_settings(("TESSERA_JOIN_TOKN", "PATH"), of_agent)
    assert "TESSERA_JOIN_TOKN is not a setting" in sentence and "TESSERA_JOIN_TOKEN?" in sentence
    # On one machine all programs may have all variables.
    assert misspelt_settings(known_names(), of_agent) == []


@pytest.mark.parametrize("text", ["", " ", "8001", "65535", "0", "65536", "-1", "80a", "٨", "8 0"])
def test_the_demonstration_reads_its_port_as_the_settings_do(text):
    environ = {"TESSERA_PORT": text}
    reading = read_settings(Platform, environ)
    if reading.problems:
        with pytest.raises(UnsuitableMachine, match="TESSERA_PORT"):
            port_from(environ)
    else:
        assert port_from(environ) == reading.values.port
