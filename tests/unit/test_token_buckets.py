"""Token buckets: a burst, then a steady rate, each key for itself, in bounded memory."""

from portal.token_buckets import BucketRate, TokenBuckets


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_after_the_burst_it_says_how_long_to_wait():
    clock = Clock()
    buckets = TokenBuckets(BucketRate(burst=3, per_second=0.5), clock=clock)
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 2, 2]
    clock.now += 1
    assert buckets.take("a") == 1
    clock.now += 1
    assert [buckets.take("a"), buckets.take("a")] == [0, 2]


def test_a_quiet_time_fills_it_to_the_burst_and_no_further():
    clock = Clock()
    buckets = TokenBuckets(BucketRate(burst=2, per_second=1), clock=clock)
    for _ in range(3):
        buckets.take("a")
    clock.now += 3600
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]


def test_each_key_has_its_own_and_what_is_owed_is_waited_for():
    buckets = TokenBuckets(BucketRate(burst=1, per_second=1), clock=Clock())
    assert (buckets.take("a"), buckets.take("a"), buckets.take("b")) == (0, 1, 0)
    buckets.owe("a")
    buckets.owe("a")
    assert (buckets.wait_seconds("a"), buckets.wait_seconds("b")) == (3, 1)


def test_a_clock_that_goes_back_takes_nothing_away():
    clock = Clock()
    buckets = TokenBuckets(BucketRate(burst=2, per_second=1), clock=clock)
    buckets.take("a")
    clock.now -= 50
    assert buckets.take("a") == 0


def test_of_too_many_keys_the_one_used_longest_ago_is_forgotten():
    buckets = TokenBuckets(BucketRate(burst=1, per_second=1), max_keys=3, clock=Clock())
    for key in "abca":
        buckets.take(key)
    for key in "de":
        buckets.take(key)
    assert [buckets.wait_seconds(key) for key in "acde"] == [0, 1, 1, 1]


def test_what_costs_more_than_the_burst_takes_all_of_it():
    clock = Clock()
    buckets = TokenBuckets(BucketRate(burst=10, per_second=2), clock=clock)
    assert (buckets.take("a", 4), buckets.take("a", 8)) == (0, 1)
    clock.now += 2
    assert (buckets.take("a", 99), buckets.take("a", 99)) == (0, 5)
