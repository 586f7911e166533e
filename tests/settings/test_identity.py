"""Mistakes in what the config says about people, tokens and logins, each with a sentence that says what to write."""

from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.gateway.building import identity_warnings
from jackfield.settings import Settings, load_settings

OIDC = '[auth.oidc]\nissuer = "https://login.example.org"\nclient_id = "us"\n'
SERVER = '[sources.far]\nkind = "mcp"\nurl = "https://far.example.org/mcp"\n'
SHARED, PERSONAL = (f'{SERVER}auth = "{auth}"\n[sources.far.oauth]\n' for auth in ("shared", "user"))


def load(folder: Path, text: str) -> Settings:
    file = folder / "jackfield.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{SERVER}auth = "users"', "sources.far.auth is 'users'; it takes 'none', 'shared' or 'user'. Correct it."),
        (f'{PERSONAL}client_secret = "s"', "sources.far.oauth has a secret or a private key, but not the client's id"),
        (f'{PERSONAL}authorization_url = "https://a.example/"', "Add token_url, or write issuer."),
        (f'{PERSONAL}token_url = "https://a.example/"', "Add authorization_url, or write issuer."),
        (f'{SHARED}grant = "client_credentials"', 'oauth.grant = "client_credentials" needs client_id. Add it.'),
        (f'{SHARED}grant = "client_credentials"\nclient_id = "us"', "needs client_secret or private_key. Add it."),
        (f'{SHARED}grant = "jwt_bearer"\nclient_id = "us"', "needs private_key. Add it."),
        (f'{SHARED}grant = "workload"\nclient_id = "us"', "needs token_file. Add it."),
        (f'{PERSONAL}grant = "enterprise"\nclient_id = "us"', "needs identity_provider. Add it."),
        (
            OIDC.replace(".org", ".org/.well-known/openid-configuration"),
            "auth.oidc.issuer is the address of the provider's metadata. Write the issuer: https://login.example.org",
        ),
        (f'{OIDC}[auth.roles.all]\nemails = ["example.org"]', "auth.roles.all.emails has 'example.org', which matches"),
    ],
)
def test_a_mistake_stops_the_start_with_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert said in raised.value.message


def test_files_of_a_login_are_relative_to_the_config(tmp_path: Path) -> None:
    text = f'{SHARED}grant = "jwt_bearer"\nclient_id = "us"\nprivate_key = "keys/us.pem"\ntoken_file = "/run/token"'
    oauth = load(tmp_path, text).sources[0].oauth
    assert oauth.private_key == str(tmp_path / "keys/us.pem")
    assert oauth.token_file == "/run/token"
    pem = "-----BEGIN PRIVATE KEY-----"
    assert load(tmp_path, text.replace("keys/us.pem", pem)).sources[0].oauth.private_key == pem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OIDC, "none of them may do anything"),
        ('[auth.roles.all]\ngroups = ["*"]', "[auth.roles] has no effect"),
        (
            '[auth.oauth]\nissuer = "https://login.example.org"',
            '[auth.oauth] issuer is unused with mode = "builtin"',
        ),
        (OIDC.replace("https", "http") + '[auth.roles.all]\ngroups = ["*"]', "[auth.oidc] issuer is not https"),
    ],
)
def test_what_is_hardly_meant_is_a_warning(tmp_path: Path, text: str, said: str) -> None:
    (warning,) = identity_warnings(load(tmp_path, text))
    assert said in warning


def test_a_provider_on_this_machine_needs_no_https(tmp_path: Path) -> None:
    text = OIDC.replace("https://login.example.org", "http://127.0.0.1:9000") + '[auth.roles.all]\ngroups = ["*"]'
    assert list(identity_warnings(load(tmp_path, text))) == []
