"""The link in a mail that ends mails without signing in: a signed name of the person."""

from datetime import timedelta

from django.core import signing

from portal.accounts.models import User

SALT = "tessera.notices.stop"
MAX_AGE = timedelta(days=400)


def stop_token(user: User) -> str:
    return signing.dumps(user.pk, salt=SALT)


def person_of(token: str) -> User | None:
    """Whose mails the token may end; None for one that is not ours, or too old."""
    try:
        pk = signing.loads(token, salt=SALT, max_age=MAX_AGE)
    except signing.BadSignature:
        return None
    return User.objects.filter(pk=pk).first()
