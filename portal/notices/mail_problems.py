"""Why a mail was not sent: what the page of notices says, and what the log has."""

from enum import StrEnum
from smtplib import (
    SMTPConnectError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPServerDisconnected,
)


class MailProblem(StrEnum):
    """As the page shows it. All have a translation."""

    NO_SERVER = "This portal has no mail server. An admin can set TESSERA_EMAIL_URL"
    NO_ANSWER = "The mail server does not answer"
    NOT_TAKEN = "The mail server did not take the mail"
    ADDRESS_REFUSED = "The mail server refused your address. Ask an admin to correct it"
    ADDRESS_UNREADABLE = "Your address is not a valid mail address. Ask an admin to correct it"
    CUT_OFF = "The mail server took too long each time"

    @property
    def is_permanent(self) -> bool:
        """Another try would end the same way."""
        return self in (self.ADDRESS_REFUSED, self.ADDRESS_UNREADABLE)


def mail_problem(error: Exception) -> MailProblem:
    match error:
        case SMTPRecipientsRefused():
            codes = [code for code, _ in error.recipients.values()]
            is_final = all(500 <= code < 600 for code in codes)
            return MailProblem.ADDRESS_REFUSED if is_final else MailProblem.NOT_TAKEN
        case SMTPConnectError() | SMTPServerDisconnected():
            return MailProblem.NO_ANSWER
        case SMTPException():
            return MailProblem.NOT_TAKEN
        case ValueError():
            return MailProblem.ADDRESS_UNREADABLE
    return MailProblem.NO_ANSWER


def error_text(error: Exception) -> str:
    """For the log: what the server said, without the recipient's address."""
    name = type(error).__name__
    match error:
        case SMTPRecipientsRefused():
            codes = sorted({code for code, _ in error.recipients.values()})
            return f"{name} {', '.join(map(str, codes))}"
        case SMTPResponseException():
            said = error.smtp_error
            words = said.decode(errors="replace") if isinstance(said, bytes) else said
            return f"{name} {error.smtp_code}: {words[:200]}"
        case ValueError():
            return name
    return f"{name}: {error}"[:200]
