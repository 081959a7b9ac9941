package kvwal.clients;

import com.hazelcast.client.impl.ClientEngineImpl;
import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.ClientAuthenticationCodec;
import com.hazelcast.client.impl.protocol.codec.ClientAuthenticationCustomCodec;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.nio.Connection;
import kvwal.node.NotWritten;
import kvwal.security.Token;

/** Hazelcast's server side of clients, behind the token and the rules of ServicePolicy: each request of each client passes `accept`. */
public final class FilteredClientEngine extends ClientEngineImpl {
    /** Credentials that Hazelcast's open edition refuses: it takes none. */
    private static final String WRONG = "wrong";

    private final ServicePolicy services;
    private final Token token;

    /** `token` may be null: then every client is let in. */
    public FilteredClientEngine(Node node, ServicePolicy services, Token token) {
        super(node);
        this.services = services;
        this.token = token;
    }

    @Override
    public void accept(ClientMessage message) {
        Connection connection = message.getConnection();
        if (getEndpointManager().getEndpoint(connection) == null) {
            super.accept(token == null ? message : authenticated(message));
            return;
        }
        String refusal = RequestLimit.is(message) ? null : services.refusal(message);
        if (RequestLimit.is(message)) {
            refuse(message, new NotWritten(RequestLimit.REFUSAL));
        } else if (refusal != null) {
            refuse(message, new UnsupportedOperationException(refusal));
        } else {
            super.accept(services.onlyServed(message));
        }
    }

    private void refuse(ClientMessage message, RuntimeException error) {
        ClientMessage answer = getExceptionFactory().createExceptionMessage(error);
        answer.setCorrelationId(message.getCorrelationId());
        message.getConnection().write(answer);
    }

    /**
     * A client's first message as Hazelcast's open edition takes it, which knows no credentials: without them if they were the token,
     * else with wrong ones. Everything else that comes before it Hazelcast refuses by itself.
     */
    private ClientMessage authenticated(ClientMessage message) {
        ClientMessage checked;
        if (message.getMessageType() == ClientAuthenticationCustomCodec.REQUEST_MESSAGE_TYPE) {
            ClientAuthenticationCustomCodec.RequestParameters told = ClientAuthenticationCustomCodec.decodeRequest(message);
            String credentials = token.is(told.credentials) ? null : WRONG;
            checked = ClientAuthenticationCodec.encodeRequest(told.clusterName, credentials, credentials, told.uuid, told.clientType,
                told.serializationVersion, told.clientHazelcastVersion, told.clientName, told.labels,
                told.isRoutingModeExists ? told.routingMode : (byte) -1, told.isCpDirectToLeaderRoutingExists && told.cpDirectToLeaderRouting);
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
