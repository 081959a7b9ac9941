package logs;

import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;

/** Lines of JSON, by hand: texts and objects of texts. */
final class Json {
    private Json() {}

    static String text(String value) {
        if (value == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char each : value.toCharArray()) {
            if (each < ' ' || each == '"' || each == '\\' || each > '~') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        return out.append('"').toString();
    }

    static String texts(Map<String, String> values) {
        StringJoiner out = new StringJoiner(",", "{", "}");
        new TreeMap<>(values).forEach((key, value) -> out.add(text(key) + ":" + text(value)));
        return out.toString();
    }
}
