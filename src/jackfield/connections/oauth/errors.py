"""Every way a login at a server behind the gateway fails. No message holds a token, a code or a secret.

OAuthError                      oauth_error
├── DiscoveryFailed             oauth_discovery_failed  no usable metadata, or metadata that contradicts itself
├── RegistrationFailed          oauth_registration_failed  there is no client that the server would take
├── CallbackRefused             oauth_callback_refused  state, issuer or code of a callback are not right
├── TokenRefused                oauth_token_refused     the token endpoint said no; carries its `error`
│   └── GrantEnded              oauth_grant_ended       the refresh token or assertion is not good any more: log in
├── StepUpRefused               oauth_step_up_refused   the server asks for scopes again and again
└── OAuthUnavailable            oauth_unavailable       no answer, or none that can be read; later it may
"""

from jackfield.errors import JackfieldError


class OAuthError(JackfieldError):
    """A login at a server behind the gateway failed."""

    code = "oauth_error"


class DiscoveryFailed(OAuthError):
    """The server has no usable metadata, or metadata that contradicts itself."""

    code = "oauth_discovery_failed"


class RegistrationFailed(OAuthError):
    """There is no client that the server would take."""

    code = "oauth_registration_failed"


class CallbackRefused(OAuthError):
    """The state, issuer or code of a callback is not right."""

    code = "oauth_callback_refused"


class TokenRefused(OAuthError):
    """The token endpoint refused; the message has its error."""

    code = "oauth_token_refused"

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error
        """The code that the server gave, such as `invalid_client`."""


class GrantEnded(TokenRefused):
    """The refresh token or assertion is not valid any more: log in again."""

    code = "oauth_grant_ended"


class StepUpRefused(OAuthError):
    """The server asks for scopes again and again."""

    code = "oauth_step_up_refused"


class OAuthUnavailable(OAuthError):
    """The authorization server does not answer, or nothing that can be read."""

    code = "oauth_unavailable"
