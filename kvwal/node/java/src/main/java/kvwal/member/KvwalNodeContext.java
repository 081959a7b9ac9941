package kvwal.member;

import com.hazelcast.client.impl.ClientEngine;
import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.EndpointQualifier;
import com.hazelcast.instance.impl.DefaultNodeContext;
import com.hazelcast.instance.impl.DefaultNodeExtension;
import com.hazelcast.instance.impl.HazelcastInstanceFactory;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.instance.impl.NodeExtension;
import com.hazelcast.internal.networking.ChannelInitializer;
import com.hazelcast.internal.server.ServerContext;
import java.util.function.Function;
import kvwal.clients.FilteredClientEngine;
import kvwal.clients.ServicePolicy;
import kvwal.security.SecureChannelInitializer;
import kvwal.security.Tls;
import kvwal.security.Token;

/** The parts of a member that kvwal makes instead of Hazelcast, by Hazelcast's own extension points. */
public final class KvwalNodeContext extends DefaultNodeContext {
    private final ServicePolicy services;
    private final Token token;
    private final Tls tls;

    /** Members and clients must show `token`; null lets everyone in. Null for `tls`: nothing is encrypted. */
    public KvwalNodeContext(ServicePolicy services, Token token, Tls tls) {
        this.services = services;
        this.token = token;
        this.tls = tls;
    }

    /** Join the cluster, or begin one. */
    public HazelcastInstance start(Config config) {
        return HazelcastInstanceFactory.newHazelcastInstance(config, config.getInstanceName(), this);
    }

    @Override
    public NodeExtension createNodeExtension(Node node) {
        return new DefaultNodeExtension(node) {
            @Override
            public ClientEngine createClientEngine() {
                return new FilteredClientEngine(node, services, token);
            }

            @Override
            public Function<EndpointQualifier, ChannelInitializer> createChannelInitializerFn(ServerContext server) {
                return token == null ? super.createChannelInitializerFn(server) : which -> new SecureChannelInitializer(server, token, tls);
            }
        };
    }
}
