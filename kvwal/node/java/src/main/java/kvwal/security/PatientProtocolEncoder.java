package kvwal.security;

import static com.hazelcast.internal.networking.HandlerStatus.BLOCKED;
import static com.hazelcast.internal.networking.HandlerStatus.CLEAN;

import com.hazelcast.internal.networking.HandlerStatus;
import com.hazelcast.internal.server.ServerContext;
import com.hazelcast.internal.server.tcp.UnifiedProtocolEncoder;

/**
 * Hazelcast's encoder of the first letters of a connection, which waits until the other side has sent its own.
 *
 * Hazelcast's says meanwhile that all is written. If something is to be sent, as on each connection to a member, the thread
 * then asks it again and again, and serves its other connections late. The system accepts a connection for a process that
 * stands still. So one member that stands still made the members that serve give each other up.
 */
final class PatientProtocolEncoder extends UnifiedProtocolEncoder {
    private volatile boolean established;

    PatientProtocolEncoder(ServerContext server) {
        super(server);
    }

    @Override
    public void signalEncoderCanReplace() {
        established = true;
        super.signalEncoderCanReplace();
    }

    @Override
    public HandlerStatus onWrite() {
        HandlerStatus status = super.onWrite();
        return status == CLEAN && !established ? BLOCKED : status;
    }
}
