package kvwal.codec;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** MessagePack codec of log entries. The bytes are those of a block of the log, with 0 for the timestamp: the log sets it. */
public final class EntryCodec {
    private static final int BIN8 = 0xc4;
    private static final int BIN16 = 0xc5;
    private static final int BIN32 = 0xc6;
    private static final int UINT8 = 0xcc;
    private static final int UINT16 = 0xcd;
    private static final int UINT32 = 0xce;
    private static final int UINT64 = 0xcf;
    private static final int STR8 = 0xd9;
    private static final int ARRAY16 = 0xdc;
    private static final int ARRAY32 = 0xdd;
    private static final int FALSE = 0xc2;
    private static final int TRUE = 0xc3;
    private static final int SIX = 0x96;
    private static final int FIXSTR = 0xa0;
    private static final int SHORT_NAME = 32;

    private static final ValueCodec.Encoded NOTHING = new ValueCodec.Encoded("", new byte[0], 0, 0);

    private EntryCodec() { }

    /** One entry for the log, which sets its timestamp; `value` null for a delete, `expires` 0 for never. */
    public static byte[] encode(ValueCodec.Encoded k, ValueCodec.Encoded value, long expires) {
        return encode(k, value, 0, expires);
    }

    private static byte[] encode(ValueCodec.Encoded k, ValueCodec.Encoded value, long timestamp, long expires) {
        ValueCodec.Encoded v = value == null ? NOTHING : value;
        int size = 1 + sizeOf(k) + sizeOf(v) + 2 + (timestamp == 0 ? 0 : Long.BYTES) + (expires == 0 ? 0 : 1 + Long.BYTES);
        ByteBuffer out = ByteBuffer.allocate(size);
        out.put((byte) (expires == 0 ? SIX : SIX + 1));
        put(out, k);
        put(out, v);
        out.put((byte) (value == null ? TRUE : FALSE));
        if (timestamp == 0) {
            out.put((byte) 0);
        } else {
            out.put((byte) UINT64).putLong(timestamp);
        }
        if (expires != 0) {
            out.put((byte) UINT64).putLong(expires);
        }
        return out.array();
    }

    /** Exact, so that the bytes need not be copied into an array of their size. */
    private static int sizeOf(ValueCodec.Encoded part) {
        int name = part.name().length();
        return 1 + Integer.BYTES + part.length() + (name < SHORT_NAME ? 1 : 2) + name;
    }

    /** Writes the head of an array of `count` entries at `at`. It always takes five bytes, so its place can be kept free. */
    public static void putHead(ByteBuffer out, int at, int count) {
        out.put(at, (byte) ARRAY32).putInt(at + 1, count);
    }

    private static void put(ByteBuffer out, ValueCodec.Encoded word) {
        out.put((byte) BIN32).putInt(word.length()).put(word.array(), word.from(), word.length());
        byte[] name = word.name().getBytes(StandardCharsets.US_ASCII);
        if (name.length < SHORT_NAME) {
            out.put((byte) (FIXSTR | name.length));
        } else {
            out.put((byte) STR8).put((byte) name.length);
        }
        out.put(name);
    }

    /** A block of entries, as Python encodes it, the i-th with `timestamps[i]`. */
    public static byte[] block(List<Entry> entries, long[] timestamps) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteBuffer head = ByteBuffer.allocate(1 + Integer.BYTES);
        putHead(head, 0, entries.size());
        out.writeBytes(head.array());
        for (int i = 0; i < timestamps.length; i++) {
            Entry entry = entries.get(i);
            ValueCodec.Encoded key = new ValueCodec.Encoded(entry.keyClass, entry.key, 0, entry.key.length);
            ValueCodec.Encoded value = new ValueCodec.Encoded(entry.valueClass, entry.value, 0, entry.value.length);
            out.writeBytes(encode(key, entry.deleted ? null : value, timestamps[i], entry.expires));
        }
        return out.toByteArray();
    }

    /** An entry as Python encodes it. `expires` is 0 for never. */
    public record Entry(String keyClass, byte[] key, String valueClass, byte[] value, boolean deleted, long expires) { }

    /** Decoder of Python's encoding: an array of entries with timestamps. */
    public static final class Reader {
        private final ByteBuffer in;
        private final int count;

        public Reader(byte[] payload) {
            in = ByteBuffer.wrap(payload);
            count = array();
        }

        public int count() {
            return count;
        }

        /** The next entry. */
        public Entry next() {
            int fields = array();
            byte[] key = bin();
            String keyClass = str();
            byte[] value = bin();
            String valueClass = str();
            boolean deleted = (in.get() & 0xff) == TRUE;
            uint();
            return new Entry(keyClass, key, valueClass, value, deleted, fields == 7 ? uint() : 0);
        }

        private int array() {
            int tag = in.get() & 0xff;
            if (tag == ARRAY16) {
                return in.getShort() & 0xffff;
            }
            return tag == ARRAY32 ? in.getInt() : tag & 0x0f;
        }

        private byte[] bin() {
            int tag = in.get() & 0xff;
            int size = tag == BIN8 ? in.get() & 0xff : tag == BIN16 ? in.getShort() & 0xffff : in.getInt();
            byte[] bytes = new byte[size];
            in.get(bytes);
            return bytes;
        }

        private String str() {
            int tag = in.get() & 0xff;
            byte[] bytes = new byte[tag == STR8 ? in.get() & 0xff : tag & 0x1f];
            in.get(bytes);
            return new String(bytes, StandardCharsets.US_ASCII);
        }

        private long uint() {
            int tag = in.get() & 0xff;
            switch (tag) {
                case UINT8: return in.get() & 0xff;
                case UINT16: return in.getShort() & 0xffff;
                case UINT32: return in.getInt() & 0xffffffffL;
                case UINT64: return in.getLong();
                default: return tag;
            }
        }
    }
}
