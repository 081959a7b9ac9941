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

/** Node context: makes the parts of a member that kvwal replaces through Hazelcast's own extension points. */
public final class KvwalNodeContext extends DefaultNodeContext {
    private final ServicePolicy services;
    private final Token token;
    private final Tls tls;

    /** `token`: members and clients must show it; null accepts all. `tls`: null for no encryption. */
    public KvwalNodeContext(ServicePolicy services, Token token, Tls tls) {
        this.services = services;
        this.token = token;
        this.tls = tls;
    }

    /** Joins the cluster, or begins one. */
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
                return token == null ? super.createChannelInitializerFn(server)
                    : which -> new SecureChannelInitializer(server, token, tls);
            }
        };
    }
}
