package peers;

import java.util.Objects;

/** A key and its value. */
final class Entry {
    final String key;
    final byte[] value;

    Entry(String key, byte[] value) {
        this.key = key;
        this.value = value;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Entry && ((Entry) other).key.equals(key);
    }

    @Override
    public int hashCode() {
        return Objects.hashCode(key);
    }
}
