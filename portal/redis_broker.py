"""Celery's broker in Redis: kombu's transport, which a message of a stranger does not stop.

kombu's worker ends on an item that is not its JSON, and begins again with the next one; with many
of them nothing is planned. Here such an item is logged and dropped. A task takes ids only, so a
well-formed message can ring a bell and do nothing else.
"""

import logging
from collections.abc import Callable
from queue import Empty
from typing import Any

from kombu.transport import redis as kombu_redis
from redis.exceptions import ResponseError

from portal.task_queues import NAMES

log = logging.getLogger(__name__)


class RedisQoS(kombu_redis.QoS):
    def append(self, message: Any, delivery_tag: Any) -> None:
        self.channel.call_mended(super().append, message, delivery_tag)

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Queue an unacknowledged message again; forget one that cannot be read."""
        try:
            super().restore_by_tag(tag, client, leftmost)
        except Exception as error:
            if _is_lost_connection(error):
                raise
            _log_dropped("unacknowledged", error)
            with self.channel.conn_or_acquire(client) as redis, redis.pipeline() as pipe:
                self._remove_from_indices(tag, pipe).execute()


class RedisChannel(kombu_redis.Channel):
    QoS = RedisQoS

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], Any], *args: Any, **options: Any
    ) -> Any:
        def guarded(message: Any) -> Any:
            try:
                return callback(message)
            except Exception as error:
                if _is_lost_connection(error):
                    raise
                _log_dropped(queue, error)
                if not message.acknowledged:
                    message.reject()

        return super().basic_consume(queue, no_ack, guarded, *args, **options)

    def get_table(self, exchange: str) -> list[tuple[str, ...]]:
        """The bindings of an exchange, without members that are none."""
        rows = self.call_mended(super().get_table, exchange)
        return [row for row in rows if len(row) == 3]

    def call_mended(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """What the call returns. Where a stranger put a value of another type in the place of one
        of the broker's, it is removed first."""
        try:
            return call(*args, **options)
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            _log_dropped("the broker's own keys", error)
            self._remove_wrong_types()
            return call(*args, **options)

    def _brpop_read(self, **options: Any) -> Any:
        return self._read(super()._brpop_read, **options)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        return self._read(super()._get, queue)

    def _put(self, queue: str, message: Any, **options: Any) -> Any:
        return self.call_mended(super()._put, queue, message, **options)

    def _size(self, queue: str) -> int:
        return int(self.call_mended(super()._size, queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self.call_mended(super()._queue_bind, exchange, routing_key, pattern, queue)

    def _read(self, read: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """`read`, in which an item that is no message counts as none."""
        try:
            return read(*args, **options)
        except Empty:
            raise
        except Exception as error:
            if _is_lost_connection(error):
                raise
            _log_dropped("a queue", error)
            if "WRONGTYPE" in str(error):
                self._remove_wrong_types()
        raise Empty

    def _remove_wrong_types(self) -> None:
        with self.conn_or_acquire() as client:
            for name, kind in self._types().items():
                if client.type(name) not in (kind, b"none"):
                    client.delete(name)

    def _types(self) -> dict[str, bytes]:
        """The keys of the broker, and of which type of Redis each is."""
        queues = {*self.active_queues, *NAMES}
        lists = {self._q_for_pri(queue, step) for queue in queues for step in self.priority_steps}
        sets = {prefix % queue for queue in queues for prefix in self._binding_prefixes()}
        return (
            dict.fromkeys(lists, b"list")
            | dict.fromkeys(sets, b"set")
            | {
                self.unacked_key: b"hash",
                self.unacked_index_key: b"zset",
                self.unacked_mutex_key: b"string",
            }
        )

    def _binding_prefixes(self) -> tuple[str, ...]:
        return self.keyprefix_queue, self.keyprefix_binding_permanent


class RedisTransport(kombu_redis.Transport):
    Channel = RedisChannel


def _is_lost_connection(error: Exception) -> bool:
    """kombu counts KeyError among these as well; it is what a message without a key raises."""
    return isinstance(error, RedisTransport.connection_errors) and not isinstance(error, KeyError)


def _log_dropped(place: str, error: Exception) -> None:
    kind = type(error).__name__
    log.warning("a message in Redis (%s) was not of this portal: %s: %.200s", place, kind, error)
