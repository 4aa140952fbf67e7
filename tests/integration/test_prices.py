"""Prices of devices: set by admins on a page and over REST, audited, and used by the advisor."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client

from portal.audit.models import AuditEntry
from portal.prices.models import DevicePrice
from portal.prices.selectors import current_prices
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
H200 = "H200-141GB"


@pytest.fixture
def root(client: Client):
    root = a_user("root", is_superuser=True)
    client.force_login(root)
    a_node("n1", gpus=2)
    return root


def put(client: Client, *prices: tuple[str, str, str], currency="EUR", version=1, status=200):
    rows = [{"board": b, "profile": p, "amount": amount} for b, p, amount in prices]
    answer = client.put(
        "/api/v1/prices",
        {"currency": currency, "prices": rows},
        content_type="application/json",
        headers={"If-Match": f'"{version}"'},
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def amounts(data: dict) -> dict[str, tuple[str | None, str]]:
    return {each["profile"]: (each["amount"], each["price_source"]) for each in data["prices"]}


def form(client: Client, status: int = 302, **fields):
    answer = client.post("/console/prices/", {"version": "1", "currency": "EUR", **fields})
    assert answer.status_code == status
    return unescape(answer.content.decode())


def test_a_price_of_a_gpu_is_that_of_its_slices_by_share(client, root):
    assert set(amounts(client.get("/api/v1/prices").json()).values()) == {(None, "")}
    found = amounts(put(client, (H200, "", "7.00"), (H200, "3g.71gb", "3")))
    assert found[""] == ("7", "admin") and found["3g.71gb"] == ("3", "admin")
    assert found["1g.18gb"] == ("1", "share") and found["2g.35gb"] == ("2", "share")


def test_a_change_is_audited_and_an_older_version_changes_nothing(client, root):
    put(client, (H200, "", "7"))
    assert client.get("/api/v1/prices")["ETag"] == '"2"'
    put(client, (H200, "", "9"), version=1, status=412)
    put(client, (H200, "", "8.5"), currency="CHF", version=2)
    line = AuditEntry.objects.filter(action="prices_set").latest("pk")
    assert line.before == {"currency": "EUR", H200: "7"}
    assert line.after == {"currency": "CHF", H200: "8.5"}
    assert (line.actor, line.noun) == ("root", "prices")


@pytest.mark.parametrize(
    ("prices", "currency", "field"),
    [
        ([("H999", "", "1")], "EUR", "H999"),
        ([(H200, "9g.1gb", "1")], "EUR", "H200-141GB 9g.1gb"),
        ([(H200, "", "1"), (H200, "", "2")], "EUR", "Give each device one price"),
        ([(H200, "", "1")], " ", "currency"),
        ([(H200, "", "1")], "E\u202eUR", "currency"),
    ],
)
def test_what_is_refused_names_its_field(client, root, prices, currency, field):
    problem = put(client, *prices, currency=currency, status=400)
    assert field in str(problem)
    assert not DevicePrice.objects.exists()


@pytest.mark.parametrize("amount", ["-1", "NaN", "1e9", "0.0000001", "free"])
def test_an_amount_that_is_none_is_refused_by_rest_and_page(client, root, amount):
    put(client, (H200, "", amount), status=400)
    assert 'aria-invalid="true"' in form(client, 400, **{H200: amount})
    assert not DevicePrice.objects.exists()


def test_the_page_sets_prices_keeps_what_was_typed_and_shows_its_history(client, root):
    page = unescape(client.get("/console/prices/").content.decode())
    assert H200 in page and "no price is shown" in page
    form(client, **{H200: "7", f"{H200} 2g.35gb": "2.5"})
    assert current_prices().amounts.keys() == {(H200, ""), (H200, "2g.35gb")}
    page = unescape(client.get("/console/prices/").content.decode())
    assert 'value="7"' in page and 'value="2.5"' in page
    assert "1 EUR: its share of the GPU" in page and "root" in page
    stale = form(client, 412, **{H200: "9"})
    assert 'value="9"' in stale and "Somebody else changed the prices" in stale
    form(client, version="2", currency="")
    assert not DevicePrice.objects.exists()


def test_a_price_without_a_node_stays_until_it_is_removed(client, root):
    put(client, ("H100-80GB", "", "4"))
    assert "H100-80GB" in client.get("/console/prices/").content.decode()
    form(client, version="2", **{H200: "7", "H100-80GB": "4"})
    assert len(current_prices().amounts) == 2


def test_the_advisor_counts_with_them(client, root):
    put(client, (H200, "", "7"))
    olga = a_user("olga")
    a_project("vision", olga)
    client.force_login(olga)
    asked = {"model": "llama3-8b", "task": "lora", "batch": 8, "steps": 1_000}
    answer = client.post("/api/v1/advice", asked, content_type="application/json").json()
    assert answer["currency"] == "EUR"
    for each in answer["devices"]:
        run, price = each["training"], each["hour_price"]
        assert price and each["price_source"] == ("share" if each["profile"] else "admin")
        if run:
            hours = run["gpus"] * run["seconds"] / 3_600
            assert run["cost"] == pytest.approx(hours * price)
            assert run["cost"] == pytest.approx(7 * run["gpu_hours"], rel=1e-4)
    text = client.get("/advise/", asked).content.decode()
    assert "Time and cost" in text and "kWh" in text
    sources = ("Price set by an admin", "share of the price that an admin set")
    assert any(source in unescape(text) for source in sources)
    served = asked | {"task": "inference"}
    answer = client.post("/api/v1/advice", served, content_type="application/json").json()
    best = answer["devices"][0]
    speed, price = best["serving"]["tokens_per_second"], best["hour_price"] * best["gpus"]
    assert best["serving"]["million_tokens_cost"] == pytest.approx(price / speed / 3_600 * 1e6)
