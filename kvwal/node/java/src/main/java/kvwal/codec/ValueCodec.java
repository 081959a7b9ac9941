package kvwal.codec;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.HeapData;
import com.hazelcast.shaded.com.fasterxml.jackson.core.JsonFactory;
import com.hazelcast.shaded.com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;

/**
 * Codec between Hazelcast's serialized bytes and the class and bytes in kvwal's log. It loses nothing: each form has exactly one
 * other.
 *
 * Values of a type that kvwal has a codec for get that codec's bytes, so log and archive show text, JSON and numbers. All others
 * are "hz": the serialized bytes as the client sent them, header included.
 */
public final class ValueCodec {
    /** Type of a value under a codec that Hazelcast does not know: the codec's name, then its bytes. */
    public static final int FOREIGN = 27510;
    /** Type that Python's client gives to values that it pickles. */
    public static final int PICKLE = -120;

    private static final String OPAQUE = "hz";
    private static final int BOOLEAN = -4;
    private static final int INTEGER = -7;
    private static final int LONG = -8;
    private static final int DOUBLE = -10;
    private static final int STRING = -11;
    private static final int BYTES = -12;
    private static final int BIG_INTEGER = -26;
    private static final int JSON = -130;
    private static final int HEADER = HeapData.DATA_OFFSET;
    private static final int MOST_INT_BYTES = 127;
    /** Kinds of structures whose entries are in memory, and the record of who decides on queues. kvwal/client knows them. */
    private static final Set<String> STRUCTURES = Set.of("map", "queue", "content", "owner");
    private static final JsonFactory JSON_FACTORY = new JsonFactory();

    /** Class and bytes of a key or value in the log; the bytes are a slice of `array`. */
    public record Encoded(String name, byte[] array, int from, int length) {
        public byte[] bytes() {
            return Arrays.copyOfRange(array, from, from + length);
        }

        /** Whether these are Hazelcast's own bytes, which may need a schema to be read. */
        public boolean isOpaque() {
            return name.equals(OPAQUE);
        }
    }

    private ValueCodec() { }

    /** Class and bytes of a serialized value. */
    public static Encoded of(Data data) {
        byte[] all = data.toByteArray();
        Encoded own = data.hasPartitionHash() ? null : own(data.getType(), all);
        return own == null ? opaque(all) : own;
    }

    private static Encoded opaque(byte[] all) {
        return new Encoded(OPAQUE, all, 0, all.length);
    }

    private static Encoded own(int type, byte[] all) {
        switch (type) {
            case STRING:
                return isSized(all) && isText(all) ? sized("str", all) : null;
            case JSON:
                return isSized(all) && isText(all) && isJson(all) ? sized("json", all) : null;
            case BYTES:
                return isSized(all) ? sized("bytes", all) : null;
            case INTEGER:
                return !holds(all, 4) ? null : number("int", BigInteger.valueOf(ByteBuffer.wrap(all).getInt(HEADER)));
            case LONG:
                return !holds(all, 8) ? null : longNumber(ByteBuffer.wrap(all).getLong(HEADER));
            case BIG_INTEGER:
                return isSized(all) ? bigNumber(all) : null;
            case DOUBLE:
                return !holds(all, 8) ? null : floatNumber(ByteBuffer.wrap(all).getLong(HEADER));
            case BOOLEAN:
                return holds(all, 1) && (all[HEADER] == 0 || all[HEADER] == 1) ? new Encoded("bool", all, HEADER, 1) : null;
            case FOREIGN:
                return foreign(all);
            default:
                return null;
        }
    }

    private static boolean holds(byte[] all, int size) {
        return all.length == HEADER + size;
    }

    private static boolean isSized(byte[] all) {
        return all.length >= HEADER + 4 && ByteBuffer.wrap(all).getInt(HEADER) == all.length - HEADER - 4;
    }

    private static Encoded sized(String name, byte[] all) {
        return new Encoded(name, all, HEADER + 4, all.length - HEADER - 4);
    }

    private static boolean isText(byte[] all) {
        int at = HEADER + 4;
        while (at < all.length && all[at] >= 0) {
            at++;
        }
        if (at == all.length) {
            return true;
        }
        ByteBuffer rest = ByteBuffer.wrap(all, at, all.length - at);
        try {
            CharBuffer text = StandardCharsets.UTF_8.newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT).decode(rest);
            return text.length() > 0;
        } catch (CharacterCodingException error) {
            return false;
        }
    }

    /** Whether it is exactly one JSON value: queries of the archive rely on it. */
    private static boolean isJson(byte[] all) {
        try (JsonParser parser = JSON_FACTORY.createParser(all, HEADER + 4, all.length - HEADER - 4)) {
            if (parser.nextToken() == null) {
                return false;
            }
            parser.skipChildren();
            return parser.nextToken() == null;
        } catch (IOException error) {
            return false;
        }
    }

    /**
     * An Integer is "int"; a Long or BigInteger is "int" only if no narrower type holds it. So each "int" has one form in
     * Hazelcast.
     */
    private static Encoded longNumber(long value) {
        return value == (int) value ? int64(value) : number("int", BigInteger.valueOf(value));
    }

    static Encoded int64(long value) {
        return number("int64", BigInteger.valueOf(value));
    }

    private static Encoded bigNumber(byte[] all) {
        byte[] bytes = Arrays.copyOfRange(all, HEADER + 4, all.length);
        if (bytes.length == 0) {
            return null;
        }
        BigInteger value = new BigInteger(bytes);
        boolean isLeast = value.bitLength() > 63 && Arrays.equals(value.toByteArray(), bytes);
        return isLeast && magnitude(value).length <= MOST_INT_BYTES ? number("int", value) : null;
    }

    /** The int codec: sign and length in one byte, then the number, big-endian, without the bytes that its sign implies. */
    private static Encoded number(String name, BigInteger value) {
        byte[] bytes = magnitude(value);
        byte[] word = new byte[bytes.length + 1];
        word[0] = (byte) (value.signum() < 0 ? 0x80 - bytes.length : 0x80 + bytes.length);
        System.arraycopy(bytes, 0, word, 1, bytes.length);
        return new Encoded(name, word, 0, word.length);
    }

    private static byte[] magnitude(BigInteger value) {
        BigInteger base = value.signum() < 0 ? value.not() : value;
        int size = Math.max(1, (base.bitLength() + 7) / 8);
        byte[] whole = value.toByteArray();
        byte[] bytes = new byte[size];
        Arrays.fill(bytes, (byte) (value.signum() < 0 ? -1 : 0));
        int shared = Math.min(size, whole.length);
        System.arraycopy(whole, whole.length - shared, bytes, size - shared, shared);
        return bytes;
    }

    private static Encoded floatNumber(long bits) {
        if (Double.isNaN(Double.longBitsToDouble(bits))) {
            return null;
        }
        long ordered = bits < 0 ? ~bits : bits ^ Long.MIN_VALUE;
        return new Encoded("float", ByteBuffer.allocate(8).putLong(ordered).array(), 0, 8);
    }

    private static Encoded foreign(byte[] all) {
        int size = all.length > HEADER ? all[HEADER] : 0;
        if (size <= 0 || all.length < HEADER + 1 + size) {
            return null;
        }
        String name = new String(all, HEADER + 1, size, StandardCharsets.US_ASCII);
        return isOurs(name) ? null : new Encoded(name, all, HEADER + 1 + size, all.length - HEADER - 1 - size);
    }

    private static boolean isOurs(String name) {
        switch (name) {
            case "str": case "json": case "bytes": case "int": case "int64": case "float": case "bool": case "hz":
                return true;
            default:
                return !name.chars().allMatch(c -> c > ' ' && c < 127) || isKept(name);
        }
    }

    /** Whether entries of this class are no caller's: a colon ends the name of a structure (kvwal/key_class.py). */
    private static boolean isKept(String name) {
        int end = name.lastIndexOf(':');
        return end >= 0 && !STRUCTURES.contains(name.substring(0, end).split("/", 2)[0]);
    }

    /** The serialized form for which `of` gave this class and these bytes. */
    public static Data toData(String name, byte[] bytes) {
        return toData(name, bytes, 0, bytes.length);
    }

    /** As `toData`, of a slice. */
    public static Data toData(String name, byte[] array, int from, int length) {
        switch (name) {
            case "hz":
                return new HeapData(Arrays.copyOfRange(array, from, from + length));
            case "str":
                return data(STRING, 4 + length).putInt(length).put(array, from, length).end();
            case "json":
                return data(JSON, 4 + length).putInt(length).put(array, from, length).end();
            case "bytes":
                return data(BYTES, 4 + length).putInt(length).put(array, from, length).end();
            case "bool":
                return data(BOOLEAN, 1).put(array, from, length).end();
            case "float":
                long ordered = ByteBuffer.wrap(array, from, length).getLong();
                return data(DOUBLE, 8).putLong(ordered < 0 ? ordered ^ Long.MIN_VALUE : ~ordered).end();
            case "int64":
                return data(LONG, 8).putLong(toNumber(array, from, length).longValueExact()).end();
            case "int":
                return toInt(toNumber(array, from, length));
            default:
                byte[] ascii = name.getBytes(StandardCharsets.US_ASCII);
                return data(FOREIGN, 1 + ascii.length + length).put((byte) ascii.length)
                    .put(ascii, 0, ascii.length).put(array, from, length).end();
        }
    }

    private static BigInteger toNumber(byte[] array, int from, int length) {
        byte[] whole = Arrays.copyOfRange(array, from, from + length);
        whole[0] = (byte) ((whole[0] & 0xff) > 0x80 ? 0 : -1);
        return new BigInteger(whole);
    }

    private static Data toInt(BigInteger value) {
        if (value.bitLength() <= 31) {
            return data(INTEGER, 4).putInt(value.intValueExact()).end();
        }
        if (value.bitLength() <= 63) {
            return data(LONG, 8).putLong(value.longValueExact()).end();
        }
        byte[] bytes = value.toByteArray();
        return data(BIG_INTEGER, 4 + bytes.length).putInt(bytes.length).put(bytes, 0, bytes.length).end();
    }

    private static Builder data(int type, int size) {
        return new Builder(ByteBuffer.allocate(HEADER + size).putInt(0).putInt(type));
    }

    private record Builder(ByteBuffer buffer) {
        Builder put(byte value) { buffer.put(value); return this; }
        Builder put(byte[] array, int from, int length) { buffer.put(array, from, length); return this; }
        Builder putInt(int value) { buffer.putInt(value); return this; }
        Builder putLong(long value) { buffer.putLong(value); return this; }
        Data end() { return new HeapData(buffer.array()); }
    }
}
