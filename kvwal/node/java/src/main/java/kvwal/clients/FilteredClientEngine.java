package kvwal.clients;

import com.hazelcast.client.impl.ClientEngineImpl;
import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.ClientAuthenticationCodec;
import com.hazelcast.client.impl.protocol.codec.ClientAuthenticationCustomCodec;
import com.hazelcast.client.impl.protocol.codec.ClientGetDistributedObjectsCodec;
import com.hazelcast.client.impl.protocol.codec.ExecutorServiceSubmitToPartitionCodec;
import com.hazelcast.client.impl.protocol.codec.MapDeleteCodec;
import com.hazelcast.client.impl.protocol.codec.MapForceUnlockCodec;
import com.hazelcast.client.impl.protocol.codec.MapSetCodec;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.nio.Connection;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import kvwal.locks.ForceUnlockRequest;
import kvwal.node.MemoryLimit;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;
import kvwal.node.TaskIds;
import kvwal.security.Tokens;
import kvwal.transactions.TransactionRequest;

/** Hazelcast's client engine behind the tokens and ServicePolicy: every request of every client passes `accept`. */
public final class FilteredClientEngine extends ClientEngineImpl {
    /** Credentials that Hazelcast's open edition refuses: it accepts none. */
    private static final String WRONG = "wrong";

    private final Node node;
    private final ServicePolicy services;
    private final Tokens tokens;

    /** `tokens` may be null: then every client is accepted. */
    public FilteredClientEngine(Node node, ServicePolicy services, Tokens tokens) {
        super(node);
        this.node = node;
        this.services = services;
        this.tokens = tokens;
    }

    @Override
    public void accept(ClientMessage message) {
        Connection connection = message.getConnection();
        if (getEndpointManager().getEndpoint(connection) == null) {
            super.accept(tokens == null ? message : authenticated(message));
            return;
        }
        String refusal = RequestLimit.is(message) ? null : services.refusal(message);
        String limit = RequestLimit.is(message) ? RequestLimit.REFUSAL : limit(message);
        if (refusal != null) {
            refuse(message, new UnsupportedOperationException(refusal));
        } else if (limit != null) {
            refuse(message, new NotWritten(limit));
        } else if (ServicePolicy.isOfLoggedMap(message)) {
            acceptOfLoggedMap(message);
        } else if (message.getMessageType() == ClientGetDistributedObjectsCodec.REQUEST_MESSAGE_TYPE && !isRecovered()) {
            refuse(message, ReadyGate.namesStillLoading());
        } else {
            acceptServed(services.onlyServed(message));
        }
    }

    /**
     * While memory is loading, Hazelcast would retry for minutes before it answers; so the client is told at once, and retries
     * for as long as it is configured to.
     *
     * A backup-aware client waits for the backups itself, and by default takes a change for done after five seconds without their
     * acknowledgement, although only a member that is cut off may have it. Without the flag the owner waits for every client,
     * and reports a backup that did not acknowledge.
     */
    private void acceptOfLoggedMap(ClientMessage message) {
        if (!ServicePolicy.isRegistration(message) && !isRecovered()) {
            refuse(message, ReadyGate.stillLoading(ServicePolicy.name(message)));
            return;
        }
        String idle = IdleTime.refusal(message);
        if (idle != null) {
            refuse(message, new UnsupportedOperationException(idle));
            return;
        }
        message.getStartFrame().flags &= ~ClientMessage.BACKUP_AWARE_FLAG;
        switch (message.getMessageType()) {
            case MapSetCodec.REQUEST_MESSAGE_TYPE -> execute(new TimestampedSet(message, node));
            case MapDeleteCodec.REQUEST_MESSAGE_TYPE -> execute(new TimestampedDelete(message, node));
            default -> acceptServed(message);
        }
    }

    private void acceptServed(ClientMessage message) {
        if (message.getMessageType() == MapForceUnlockCodec.REQUEST_MESSAGE_TYPE) {
            execute(new ForceUnlockRequest(message, node));
        } else if (isTransaction(message)) {
            execute(new TransactionRequest(message, node));
        } else {
            super.accept(message);
        }
    }

    private static boolean isTransaction(ClientMessage message) {
        return message.getMessageType() == ExecutorServiceSubmitToPartitionCodec.REQUEST_MESSAGE_TYPE
            && TaskIds.TRANSACTIONS.equals(ServicePolicy.name(message));
    }

    private void execute(PartitionSpecificRunnable task) {
        node.getNodeEngine().getOperationService().execute(task);
    }

    private String limit(ClientMessage message) {
        String memory = MemoryLimit.of(node.hazelcastInstance).refusal(message);
        return memory == null ? PredicateLimit.refusal(message) : memory;
    }

    private boolean isRecovered() {
        return ReadyGate.of(node.hazelcastInstance).isRecovered();
    }

    private void refuse(ClientMessage message, RuntimeException error) {
        ClientMessage answer = getExceptionFactory().createExceptionMessage(error);
        answer.setCorrelationId(message.getCorrelationId());
        message.getConnection().write(answer);
    }

    /**
     * Translates a client's first message for Hazelcast's open edition, which knows no credentials: it gets none if the client
     * showed a token of the cluster, else wrong ones. Hazelcast itself refuses every other message before authentication.
     */
    private ClientMessage authenticated(ClientMessage message) {
        ClientMessage checked;
        if (message.getMessageType() == ClientAuthenticationCustomCodec.REQUEST_MESSAGE_TYPE) {
            ClientAuthenticationCustomCodec.RequestParameters told = ClientAuthenticationCustomCodec.decodeRequest(message);
            String credentials = tokens.accept(told.credentials) ? null : WRONG;
            checked = ClientAuthenticationCodec.encodeRequest(told.clusterName, credentials, credentials, told.uuid,
                told.clientType, told.serializationVersion, told.clientHazelcastVersion, told.clientName, told.labels,
                told.isRoutingModeExists ? told.routingMode : (byte) -1,
                told.isCpDirectToLeaderRoutingExists && told.cpDirectToLeaderRouting);
        } else if (message.getMessageType() == ClientAuthenticationCodec.REQUEST_MESSAGE_TYPE) {
            ClientAuthenticationCodec.RequestParameters told = ClientAuthenticationCodec.decodeRequest(message);
            checked = ClientAuthenticationCodec.encodeRequest(told.clusterName, WRONG, WRONG, told.uuid, told.clientType,
                told.serializationVersion, told.clientHazelcastVersion, told.clientName, told.labels, (byte) -1, false);
        } else {
            return message;
        }
        checked.setCorrelationId(message.getCorrelationId());
        checked.setConnection(message.getConnection());
        return checked;
    }
}
