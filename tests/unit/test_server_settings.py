"""How database and broker are reached: what their URLs say is kept, and TLS is verified."""

import environ
import pytest
from kombu import Connection

from portal.settings.servers import REQUEST_CONNECTIONS, broker_address, postgres_settings

VERIFIED_URL = "postgres://me:word@db/tessera?sslmode=verify-full&sslrootcert=/etc/tessera/ca.pem"


def settings_of(url: str, direct_url: str = ""):
    database = environ.Env.db_url_config(url)
    return postgres_settings(database, direct_url=direct_url, agent_connections=10)


def test_tls_of_the_database_url_is_kept_beside_the_pool():
    options = settings_of(VERIFIED_URL)["OPTIONS"]
    assert options["sslmode"] == "verify-full"
    assert options["sslrootcert"] == "/etc/tessera/ca.pem"
    assert options["pool"]["timeout"] == 10


def test_the_pool_has_room_for_requests_beside_the_connections_that_agents_keep():
    """With 16 for both, 8 threads for reports and 2 for logs left pages 6: submits got 503."""
    pool = settings_of(VERIFIED_URL)["OPTIONS"]["pool"]
    assert pool["max_size"] == 10 + REQUEST_CONNECTIONS


def test_a_vanished_database_host_is_given_up_unless_the_url_says_otherwise():
    assert settings_of(VERIFIED_URL)["OPTIONS"]["tcp_user_timeout"] == 20_000
    url = f"{VERIFIED_URL}&tcp_user_timeout=5000"
    assert settings_of(url)["OPTIONS"]["tcp_user_timeout"] == 5000


@pytest.mark.parametrize("direct", ["", "postgres://me@db/tessera"])
def test_behind_a_pooler_no_cursor_outlives_its_transaction(direct):
    settings = settings_of("postgres://me@pooler:6432/tessera", direct)
    assert settings["DISABLE_SERVER_SIDE_CURSORS"] == bool(direct)


@pytest.mark.parametrize("url", ["filesystem://", "redis://broker:word@redis:6379/1"])
def test_a_broker_without_tls_is_left_as_it_is(url):
    assert broker_address(url) == url


def test_a_broker_over_tls_is_verified_by_default():
    """kombu would speak plain text, password and all, without these."""
    url = broker_address("rediss://broker:w%40rd@redis:6379/1")
    connection = Connection(url)
    assert connection.ssl == {"ssl_cert_reqs": 2, "ssl_check_hostname": True}
    assert (connection.userid, connection.password) == ("broker", "w@rd")
    assert connection.virtual_host == "1"


def test_a_broker_has_the_authorities_and_exceptions_of_its_url():
    given = "rediss://redis/1?ssl_ca_certs=/etc/tessera/ca.pem&ssl_check_hostname=false"
    ssl = Connection(broker_address(given)).ssl
    assert ssl["ssl_ca_certs"] == "/etc/tessera/ca.pem"
    assert ssl["ssl_cert_reqs"] == 2
    assert ssl["ssl_check_hostname"] is False
