package com.hazelcast.client.impl.protocol;

import com.hazelcast.client.impl.protocol.exception.MaxMessageSizeExceeded;
import com.hazelcast.internal.nio.Bits;
import java.nio.ByteBuffer;
import kvwal.clients.RequestLimit;

/**
 * Patch of Hazelcast's class: assembles a client's frames to a message.
 *
 * Hazelcast allocates as much as the first four bytes of a frame ask for, up to two gigabytes. Here a frame above
 * RequestLimit.MOST is read past, and its message is marked. Before a client is authenticated, Hazelcast's own, much smaller
 * limit holds.
 */
public final class ClientMessageReader {
    private static final int FLAGS = 0xffff;
    private static final byte[] NOTHING = new byte[0];

    private final int most;
    private ClientMessage message;
    private ClientMessage.Frame frame;
    private int left;
    private boolean passes;
    private boolean oversize;
    private long untrusted;

    public ClientMessageReader(int most) {
        this.most = most > 0 ? most : Integer.MAX_VALUE;
    }

    /** Whether the message is complete; if not, call again with more bytes. */
    public boolean readFrom(ByteBuffer src, boolean trusted) {
        while (frame != null || begin(src, trusted)) {
            if (!fill(src)) {
                return false;
            }
            boolean last = ClientMessage.isFlagSet(frame.flags, ClientMessage.IS_FINAL_FLAG);
            frame = null;
            if (last) {
                if (oversize) {
                    RequestLimit.mark(message);
                }
                return true;
            }
        }
        return false;
    }

    private boolean begin(ByteBuffer src, boolean trusted) {
        int head = ClientMessage.SIZE_OF_FRAME_LENGTH_AND_FLAGS;
        if (src.remaining() < head) {
            return false;
        }
        int length = Bits.readIntL(src, src.position());
        int flags = Bits.readShortL(src, src.position() + Integer.BYTES) & FLAGS;
        if (length < head) {
            throw new IllegalArgumentException("A frame of a client says that it has " + length + " bytes: fewer than " + head);
        }
        untrusted += trusted ? 0 : length;
        if (untrusted > most) {
            throw new MaxMessageSizeExceeded("A client that is not authenticated may send " + most + " bytes, and sends more.");
        }
        src.position(src.position() + head);
        left = length - head;
        passes = left > RequestLimit.MOST;
        oversize |= passes;
        frame = new ClientMessage.Frame(passes ? NOTHING : new byte[left], flags);
        if (message == null) {
            message = ClientMessage.createForDecode(frame);
        } else {
            message.add(frame);
        }
        return true;
    }

    private boolean fill(ByteBuffer src) {
        int now = Math.min(left, src.remaining());
        if (passes) {
            src.position(src.position() + now);
        } else {
            src.get(frame.content, frame.content.length - left, now);
        }
        left -= now;
        return left == 0;
    }

    public ClientMessage getClientMessage() {
        return message;
    }

    public void reset() {
        frame = null;
        message = null;
    }
}
