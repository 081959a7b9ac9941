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
import kvwal.security.MemberChannelInitializer;
import kvwal.security.Tls;
import kvwal.security.Tokens;
import kvwal.transactions.IntentWatch;

/** Node context: makes the parts of a member that kvwal replaces through Hazelcast's own extension points. */
public final class KvwalNodeContext extends DefaultNodeContext {
    private final ServicePolicy services;
    private final Tokens tokens;
    private final Tls tls;

    /** `tokens`: members and clients must show one of them; null accepts all. `tls`: null for no encryption. */
    public KvwalNodeContext(ServicePolicy services, Tokens tokens, Tls tls) {
        this.services = services;
        this.tokens = tokens;
        this.tls = tls;
    }

    /** Joins the cluster, or begins one. */
    public HazelcastInstance start(Config config) {
        HazelcastInstance instance = HazelcastInstanceFactory.newHazelcastInstance(config, config.getInstanceName(), this);
        IntentWatch.start(instance);
        return instance;
    }

    @Override
    public NodeExtension createNodeExtension(Node node) {
        return new DefaultNodeExtension(node) {
            @Override
            public ClientEngine createClientEngine() {
                return new FilteredClientEngine(node, services, tokens);
            }

            @Override
            public Function<EndpointQualifier, ChannelInitializer> createChannelInitializerFn(ServerContext server) {
                return which -> new MemberChannelInitializer(server, tokens, tls);
            }
        };
    }
}
