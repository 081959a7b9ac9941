package kvwal.codec;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.StreamSerializer;
import java.io.IOException;
import java.io.InputStream;
import java.util.function.Function;

/** Serializer that keeps values of a type that only clients can read as the bytes that they are. */
public final class OpaqueSerializer<T extends OpaqueSerializer.Opaque> implements StreamSerializer<T> {
    private final int type;
    private final Function<byte[], T> make;

    private OpaqueSerializer(int type, Function<byte[], T> make) {
        this.type = type;
        this.make = make;
    }

    /** For values that Python's client pickled. */
    public static OpaqueSerializer<Pickle> pickles() {
        return new OpaqueSerializer<>(ValueCodec.PICKLE, Pickle::new);
    }

    /** For values under a codec of kvwal that Hazelcast has no type for. */
    public static OpaqueSerializer<Foreign> foreigners() {
        return new OpaqueSerializer<>(ValueCodec.FOREIGN, Foreign::new);
    }

    /** A value that this member cannot read. */
    public abstract static class Opaque {
        final byte[] bytes;

        Opaque(byte[] bytes) {
            this.bytes = bytes;
        }
    }

    public static final class Pickle extends Opaque {
        Pickle(byte[] bytes) {
            super(bytes);
        }
    }

    public static final class Foreign extends Opaque {
        Foreign(byte[] bytes) {
            super(bytes);
        }
    }

    @Override
    public int getTypeId() {
        return type;
    }

    @Override
    public void write(ObjectDataOutput out, T value) throws IOException {
        out.write(value.bytes);
    }

    @Override
    public T read(ObjectDataInput in) throws IOException {
        byte[] bytes = new byte[((InputStream) in).available()];
        in.readFully(bytes);
        return make.apply(bytes);
    }
}
