"""Values of every type that a client can write: Hazelcast's own kinds of serialization, and a Java client's classes."""

from __future__ import annotations

from typing import Any

from hazelcast.core import HazelcastJsonValue
from hazelcast.serialization.api import CompactReader, CompactSerializer, CompactWriter, Portable


class Employee:
    def __init__(self, name: str, age: int, boss: Employee | None = None) -> None:
        self.name, self.age, self.boss = name, age, boss

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Employee) and self.__dict__ == other.__dict__


class EmployeeSerializer(CompactSerializer[Employee]):
    def read(self, reader: CompactReader) -> Employee:
        return Employee(reader.read_string("name"), reader.read_int32("age"), reader.read_compact("boss"))

    def write(self, writer: CompactWriter, employee: Employee) -> None:
        writer.write_string("name", employee.name)
        writer.write_int32("age", employee.age)
        writer.write_compact("boss", employee.boss)

    def get_type_name(self) -> str:
        return "employee"

    def get_class(self) -> type[Employee]:
        return Employee


class Point(Portable):
    def __init__(self, x: int = 0) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.x == other.x

    def write_portable(self, writer: Any) -> None:
        writer.write_int("x", self.x)

    def read_portable(self, reader: Any) -> None:
        self.x = reader.read_int("x")

    def get_factory_id(self) -> int:
        return 1

    def get_class_id(self) -> int:
        return 1


TYPED = {"compact_serializers": [EmployeeSerializer()], "portable_factories": {1: {1: Point}}}


VALUES: list[tuple[Any, Any, str]] = [
    ("text", "a ünïcode text, 🐘", "str"),
    ("empty", "", "str"),
    ("int", -256, "int"),
    ("largest int", 2**31 - 1, "int"),
    ("float", -0.0, "float"),
    ("not a number", float("nan"), "hz"),
    ("bool", True, "bool"),
    ("bytes of an array", bytearray(b"\x00\xff"), "bytes"),
    ("pickled bytes", b"abc", "hz"),
    ("pickled", {"a": [1, (2, 3)]}, "hz"),
    ("list", [1, 2], "hz"),
    ("json", HazelcastJsonValue('{"b": 1,  "a": [1.50, null]}'), "json"),
    ("no json", HazelcastJsonValue("nothing of the kind"), "hz"),
    ("compact", Employee("Ada", 36, Employee("Charles", 60)), "hz"),
    ("portable", Point(7), "hz"),
    (7, "int key", "str"),
    (True, "bool key", "str"),
    (2.5, "float key", "str"),
    (Point(1), "portable key", "str"),
]


JAVA = """
import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.IMap;
import java.io.Serializable;
import java.math.BigInteger;
import java.util.*;

public class Writes {
    record Job(String name, List<Integer> stages) implements Serializable { }

    public static void main(String[] typed) {
        ClientConfig config = new ClientConfig();
        config.setClusterName(typed[1]);
        config.getNetworkConfig().addAddress(typed[0]);
        config.setProperty("hazelcast.logging.type", "none");
        HazelcastInstance client = HazelcastClient.newHazelcastClient(config);
        IMap<Object, Object> map = client.getMap("java");
        Map<Object, Object> all = new LinkedHashMap<>();
        all.put("job", new Job("one", List.of(1, 2)));
        all.put("long", 5L);
        all.put("wide long", 1L << 40);
        all.put("big", BigInteger.TWO.pow(100).negate());
        all.put("small big", BigInteger.ONE);
        all.put("short", (short) 3);
        all.put("float", 1.5f);
        all.put("date", new Date(0));
        all.put("uuid", new UUID(1, 2));
        all.put("map", new HashMap<>(Map.of("a", new Job("two", List.of()))));
        all.put(5L, "a Long key");
        all.put(5, "an Integer key");
        all.put(new Job("key", List.of()), "an object as a key");
        if (typed[2].equals("write")) {
            all.forEach(map::set);
        }
        all.forEach((key, value) -> {
            if (!value.equals(map.get(key))) {
                throw new AssertionError(key + ": " + map.get(key));
            }
        });
        System.out.println(map.size());
        client.shutdown();
    }
}
"""
