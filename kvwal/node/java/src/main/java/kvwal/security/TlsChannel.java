package kvwal.security;

import static com.hazelcast.internal.networking.HandlerStatus.BLOCKED;
import static com.hazelcast.internal.networking.HandlerStatus.CLEAN;
import static com.hazelcast.internal.networking.HandlerStatus.DIRTY;
import static com.hazelcast.internal.nio.IOUtil.compactOrClear;

import com.hazelcast.internal.networking.Channel;
import com.hazelcast.internal.networking.HandlerStatus;
import com.hazelcast.internal.networking.InboundHandler;
import com.hazelcast.internal.networking.OutboundHandler;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLException;

/**
 * TLS of one connection: a handler next to the socket in each direction. Both work on one engine in turn, and each wakes the
 * other when the engine needs the other direction first.
 */
final class TlsChannel {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private final Channel channel;
    private final SSLEngine engine;

    TlsChannel(Channel channel, Tls tls) {
        this.channel = channel;
        engine = tls.engine(channel.isClientMode());
    }

    InboundHandler<ByteBuffer, ByteBuffer> decoder() {
        return new Decoder();
    }

    OutboundHandler<ByteBuffer, ByteBuffer> encoder() {
        return new Encoder();
    }

    /** What the engine needs next, after its own calculations. */
    private SSLEngineResult.HandshakeStatus needs() {
        while (engine.getHandshakeStatus() == SSLEngineResult.HandshakeStatus.NEED_TASK) {
            for (Runnable task = engine.getDelegatedTask(); task != null; task = engine.getDelegatedTask()) {
                task.run();
            }
        }
        return engine.getHandshakeStatus();
    }

    private static EOFException ended() {
        return new EOFException("The other side ended TLS.");
    }

    /** From the socket: decrypts `src` for the next handler. */
    private final class Decoder extends InboundHandler<ByteBuffer, ByteBuffer> {
        /** Decrypted bytes for which the next handler had no room. */
        private ByteBuffer clear;

        @Override
        public void handlerAdded() {
            initSrcBuffer();
            clear = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize());
        }

        @Override
        public HandlerStatus onRead() throws IOException {
            synchronized (engine) {
                src.flip();
                try {
                    return read();
                } finally {
                    compactOrClear(src);
                }
            }
        }

        private HandlerStatus read() throws IOException {
            while (true) {
                if (!handOn()) {
                    return DIRTY;
                }
                if (needs() == SSLEngineResult.HandshakeStatus.NEED_WRAP) {
                    channel.outboundPipeline().wakeup();
                    return CLEAN;
                }
                if (!src.hasRemaining()) {
                    return CLEAN;
                }
                SSLEngineResult result = engine.unwrap(src, clear);
                if (result.getHandshakeStatus() == SSLEngineResult.HandshakeStatus.FINISHED) {
                    channel.outboundPipeline().wakeup();
                }
                switch (result.getStatus()) {
                    case BUFFER_UNDERFLOW:
                        return CLEAN;
                    case BUFFER_OVERFLOW:
                        clear = ByteBuffer.allocate(2 * clear.capacity());
                        break;
                    case CLOSED:
                        throw ended();
                    default:
                        break;
                }
            }
        }

        /** Whether the next handler has taken all decrypted bytes. */
        private boolean handOn() {
            clear.flip();
            int some = Math.min(clear.remaining(), dst.remaining());
            ByteBuffer part = clear.slice().limit(some);
            dst.put(part);
            clear.position(clear.position() + some);
            clear.compact();
            return clear.position() == 0;
        }
    }

    /** To the socket: encrypts the bytes of the handler before it. */
    private final class Encoder extends OutboundHandler<ByteBuffer, ByteBuffer> {
        @Override
        public void handlerAdded() {
            initDstBuffer(Math.max(4 * engine.getSession().getPacketBufferSize(), 1 << 17));
        }

        @Override
        public HandlerStatus onWrite() throws IOException {
            synchronized (engine) {
                compactOrClear(dst);
                try {
                    return write();
                } finally {
                    dst.flip();
                }
            }
        }

        private HandlerStatus write() throws IOException {
            while (true) {
                SSLEngineResult.HandshakeStatus needed = needs();
                if (needed == SSLEngineResult.HandshakeStatus.NEED_UNWRAP) {
                    channel.inboundPipeline().wakeup();
                    return dst.position() > 0 ? DIRTY : BLOCKED;
                }
                boolean shakes = needed == SSLEngineResult.HandshakeStatus.NEED_WRAP;
                if (!shakes && !src.hasRemaining()) {
                    return CLEAN;
                }
                SSLEngineResult result = wrap(shakes);
                if (result.getStatus() == SSLEngineResult.Status.BUFFER_OVERFLOW) {
                    return DIRTY;
                }
                if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
                    throw ended();
                }
                if (shakes) {
                    channel.inboundPipeline().wakeup();
                }
            }
        }

        private SSLEngineResult wrap(boolean shakes) throws SSLException {
            return engine.wrap(shakes ? NOTHING : src, dst);
        }
    }
}
