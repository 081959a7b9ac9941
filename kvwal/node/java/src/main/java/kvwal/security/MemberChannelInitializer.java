package kvwal.security;

import com.hazelcast.internal.networking.Channel;
import com.hazelcast.internal.networking.ChannelInitializer;
import com.hazelcast.internal.networking.ChannelOption;
import com.hazelcast.internal.server.ServerContext;
import com.hazelcast.internal.server.tcp.UnifiedProtocolDecoder;
import com.hazelcast.spi.properties.ClusterProperty;
import com.hazelcast.spi.properties.HazelcastProperties;

/** Initializer of each connection of a member: Hazelcast's options and protocol, with a token TLS and TokenHandshake, too. */
public final class MemberChannelInitializer implements ChannelInitializer {
    private static final int KILOBYTE = 1024;

    private final ServerContext server;
    private final Tokens tokens;
    private final Tls tls;

    /** `tokens` and `tls` may be null: then the other side need not prove anything, and nothing is encrypted. */
    public MemberChannelInitializer(ServerContext server, Tokens tokens, Tls tls) {
        this.server = server;
        this.tokens = tokens;
        this.tls = tls;
    }

    /** Sets the options that Hazelcast's UnifiedChannelInitializer sets. */
    @Override
    public void initChannel(Channel channel) {
        HazelcastProperties set = server.properties();
        channel.options()
            .setOption(ChannelOption.DIRECT_BUF, set.getBoolean(ClusterProperty.SOCKET_BUFFER_DIRECT))
            .setOption(ChannelOption.TCP_NODELAY, set.getBoolean(ClusterProperty.SOCKET_NO_DELAY))
            .setOption(ChannelOption.SO_KEEPALIVE, set.getBoolean(ClusterProperty.SOCKET_KEEP_ALIVE))
            .setOption(ChannelOption.SO_SNDBUF, set.getInteger(ClusterProperty.SOCKET_SEND_BUFFER_SIZE) * KILOBYTE)
            .setOption(ChannelOption.SO_RCVBUF, set.getInteger(ClusterProperty.SOCKET_RECEIVE_BUFFER_SIZE) * KILOBYTE)
            .setOption(ChannelOption.SO_LINGER, set.getSeconds(ClusterProperty.SOCKET_LINGER_SECONDS))
            .setOption(ChannelOption.TCP_KEEPIDLE, set.getInteger(ClusterProperty.SOCKET_KEEP_IDLE))
            .setOption(ChannelOption.TCP_KEEPCOUNT, set.getInteger(ClusterProperty.SOCKET_KEEP_COUNT))
            .setOption(ChannelOption.TCP_KEEPINTERVAL, set.getInteger(ClusterProperty.SOCKET_KEEP_INTERVAL));
        if (tokens == null) {
            PatientProtocolEncoder encoder = new PatientProtocolEncoder(server);
            channel.outboundPipeline().addLast(encoder);
            channel.inboundPipeline().addLast(new UnifiedProtocolDecoder(server, encoder));
            return;
        }
        if (tls == null) {
            TokenHandshake.begin(server, tokens, channel);
            return;
        }
        TlsChannel encrypted = new TlsChannel(channel, tls);
        channel.inboundPipeline().addLast(encrypted.decoder());
        TokenHandshake.begin(server, tokens, channel);
        channel.outboundPipeline().addLast(encrypted.encoder());
    }
}
