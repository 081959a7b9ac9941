package kvwal.security;

import static com.hazelcast.internal.networking.HandlerStatus.BLOCKED;
import static com.hazelcast.internal.networking.HandlerStatus.CLEAN;
import static com.hazelcast.internal.networking.HandlerStatus.DIRTY;
import static com.hazelcast.internal.nio.IOUtil.compactOrClear;

import com.hazelcast.internal.networking.Channel;
import com.hazelcast.internal.networking.HandlerStatus;
import com.hazelcast.internal.networking.InboundHandler;
import com.hazelcast.internal.networking.OutboundHandler;
import com.hazelcast.internal.server.ServerContext;
import com.hazelcast.internal.server.tcp.UnifiedProtocolDecoder;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Handshake of two members before the first byte of Hazelcast's protocol: each proves that it knows a token of the cluster, and
 * sends it to no one.
 *
 * The member that connects sends MAGIC and a nonce. The other one answers with a nonce and its proof, and receives the first
 * one's proof, which is made with the same token. While the cluster's token is changed, members may know different tokens. So the
 * first nonce names the token that the connecting member shows. If the other one knows that token, it proves it, else its own.
 *
 * A client begins with the three letters of Hazelcast's client protocol, and shows its token in its first message:
 * see FilteredClientEngine. Any other beginning closes the connection.
 */
final class TokenHandshake {
    private static final byte[] MAGIC = "KVT".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] CLIENT = "CP2".getBytes(StandardCharsets.US_ASCII);
    private static final String ASKS = "kvwal member that connects";
    private static final String ANSWERS = "kvwal member that accepts";
    private static final int SIZE = Token.SIZE;

    private final ServerContext server;
    private final Tokens tokens;
    private final Channel channel;
    private final Writer writer = new Writer();
    private final PatientProtocolEncoder encoder;
    private final UnifiedProtocolDecoder decoder;
    private byte[] asked;
    private byte[] answered;
    private Token answeredWith;

    private TokenHandshake(ServerContext server, Tokens tokens, Channel channel) {
        this.server = server;
        this.tokens = tokens;
        this.channel = channel;
        encoder = new PatientProtocolEncoder(server);
        encoder.setChannel(channel); // the decoder may tell it what to do before its turn has come
        decoder = new UnifiedProtocolDecoder(server, encoder);
    }

    /** Put it in front of Hazelcast's own protocol. */
    static void begin(ServerContext server, Tokens tokens, Channel channel) {
        TokenHandshake handshake = new TokenHandshake(server, tokens, channel);
        channel.outboundPipeline().addLast(handshake.writer);
        if (channel.isClientMode()) {
            handshake.asked = tokens.shown().namedNonce();
            handshake.writer.waiting.add(join(MAGIC, handshake.asked));
            channel.inboundPipeline().addLast(handshake.new Reader(2 * SIZE, handshake::answered));
        } else {
            channel.inboundPipeline().addLast(handshake.new Reader(MAGIC.length, handshake::begun));
        }
    }

    private void begun(Reader reader, byte[] letters) throws EOFException {
        if (Arrays.equals(letters, CLIENT)) {
            finish(reader);
            decoder.src().put(letters);
        } else if (Arrays.equals(letters, MAGIC)) {
            channel.inboundPipeline().replace(reader, new Reader(SIZE, this::asked));
        } else {
            throw refused();
        }
    }

    private void asked(Reader reader, byte[] nonce) {
        asked = nonce;
        answered = Token.nonce();
        answeredWith = tokens.namedBy(asked);
        writer.send(join(answered, answeredWith.proof(ANSWERS, asked, answered)));
        channel.inboundPipeline().replace(reader, new Reader(SIZE, this::proved));
    }

    private void answered(Reader reader, byte[] answer) throws EOFException {
        answered = Arrays.copyOf(answer, SIZE);
        answeredWith = tokens.provedBy(Arrays.copyOfRange(answer, SIZE, 2 * SIZE), ANSWERS, asked, answered);
        if (answeredWith == null) {
            throw refused();
        }
        writer.send(answeredWith.proof(ASKS, asked, answered));
        finish(reader);
    }

    private void proved(Reader reader, byte[] proof) throws EOFException {
        if (!MessageDigest.isEqual(answeredWith.proof(ASKS, asked, answered), proof)) {
            throw refused();
        }
        finish(reader);
    }

    private void finish(Reader reader) {
        writer.end();
        channel.inboundPipeline().replace(reader, decoder);
    }

    private EOFException refused() {
        String sentence = "The connection with " + channel.remoteSocketAddress() + " was closed: the other side did not prove"
            + " that it knows this cluster's token. Nothing of it was accepted. If it is a member, give it the same token.";
        server.getLoggingService().getLogger(TokenHandshake.class).warning(sentence);
        return new EOFException(sentence);
    }

    private static byte[] join(byte[] first, byte[] second) {
        return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
    }

    /** A step that has what it waited for. */
    private interface Step {
        void go(Reader reader, byte[] read) throws EOFException;
    }

    /** Reads so many bytes and not one more: what follows is for the next in line. */
    private final class Reader extends InboundHandler<ByteBuffer, Void> {
        private final int size;
        private final Step step;

        Reader(int size, Step step) {
            this.size = size;
            this.step = step;
        }

        @Override
        public void handlerAdded() {
            initSrcBuffer(size);
        }

        @Override
        public HandlerStatus onRead() throws EOFException {
            if (src.position() == size) {
                byte[] read = new byte[size];
                src.flip().get(read);
                src.clear();
                step.go(this, read);
            }
            return CLEAN;
        }
    }

    /** Sends the steps of the handshake, and holds everything else back until it is over. */
    private final class Writer extends OutboundHandler<Void, ByteBuffer> {
        private final Queue<byte[]> waiting = new ConcurrentLinkedQueue<>();
        private volatile boolean ends;

        void send(byte[] bytes) {
            waiting.add(bytes);
            channel.outboundPipeline().wakeup();
        }

        void end() {
            ends = true;
            channel.outboundPipeline().wakeup();
        }

        @Override
        public void handlerAdded() {
            initDstBuffer(2 * SIZE);
        }

        @Override
        public HandlerStatus onWrite() {
            compactOrClear(dst);
            try {
                if (dst.position() > 0) {
                    return DIRTY;
                }
                boolean over = ends;
                byte[] next = waiting.poll();
                if (next != null) {
                    dst.put(next);
                    return DIRTY;
                }
                if (!over) {
                    return BLOCKED;
                }
                channel.outboundPipeline().replace(this, encoder);
                return CLEAN;
            } finally {
                dst.flip();
            }
        }
    }
}
