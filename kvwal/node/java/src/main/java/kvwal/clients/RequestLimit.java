package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;

/** Limit of one part (a key, a value, a name) of a client's request. A larger part is read past, never held, and refused. */
public final class RequestLimit {
    /** Far more than a log entry may have, and far less than a heap. */
    public static final int MOST = 16 << 20;
    static final String REFUSAL = "TooLarge: a part of the request has more than " + (MOST >> 20)
        + " MiB; nothing was read or written. Store a smaller value, or several.";
    private static final String MARK = "kvwal.oversize";

    private RequestLimit() { }

    /** A part of this message was left out. */
    public static void mark(ClientMessage message) {
        message.setOperationName(MARK);
    }

    static boolean is(ClientMessage message) {
        return MARK.equals(message.getOperationName());
    }
}
