package kvwal.history;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import kvwal.member.TaskFactory;
import kvwal.node.MemberQuery;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;
import kvwal.quorum.Majority;

/**
 * What clients ask that memory does not know, as the past of a map, and what members ask each other for it: their tasks wait here
 * until Python, which reads logs and archive, has answered.
 */
public final class HistoryRequests {
    private static final String SERVICE = "kvwal.questions";
    /** Has a thread for each question under way: not those of transactions, which would wait for an archive that is away. */
    public static final String EXECUTOR = "kvwal.questions";
    /** Those of members wait for nobody else, so that members which ask each other never wait in a circle. */
    private static final String PEERS = "kvwal.peers";
    private static final long PATIENCE_MILLIS = 10_000;
    private static final int AT_ONCE = 64;
    private static final HistoryRequest END = new HistoryRequest(new byte[0]);

    private final ReadyGate gate;
    private final Majority majority;
    private final BlockingQueue<HistoryRequest> asked = new LinkedBlockingQueue<>();
    private volatile boolean closed;

    public HistoryRequests(ReadyGate gate, Majority majority) {
        this.gate = gate;
        this.majority = majority;
    }

    /** What members ask: it is answered before memory is whole, too. */
    public static HistoryRequests ofPeers() {
        return new HistoryRequests(null, null);
    }

    /** For the configuration of the member that answers them. */
    public void configure(Config config) {
        config.getUserContext().put(gate == null ? PEERS : SERVICE, this);
        config.getExecutorConfig(gate == null ? PEERS : EXECUTOR).setPoolSize(AT_ONCE);
    }

    /** What the member with this number answers; null if it is gone, or has not answered after so many milliseconds. */
    public static byte[] askPeer(HazelcastInstance instance, String number, byte[] text, long millis)
            throws ExecutionException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        IExecutorService executor = instance.getExecutorService(PEERS);
        List<Member> asked = new ArrayList<>(instance.getCluster().getMembers());
        asked.removeIf(member -> !member.getUuid().toString().equals(number));
        List<byte[]> found = MemberQuery.of(asked,
            (member, answer) -> executor.submitToMember(new AskPeer(text), member, new MemberQuery.Into<>(answer)),
            member -> System.nanoTime() < end && MemberQuery.isThere(instance, member), Math.min(millis, PATIENCE_MILLIS));
        return found.isEmpty() ? null : found.get(0);
    }

    /** What was asked, and where its answer goes. */
    public static final class HistoryRequest {
        private final byte[] text;
        private final CompletableFuture<byte[]> answer = new CompletableFuture<>();

        HistoryRequest(byte[] text) {
            this.text = text;
        }

        public byte[] text() {
            return text;
        }

        /** This is the answer. */
        public void answer(byte[] with) {
            answer.complete(with);
        }

        /** There is none: `error` begins with the name of kvwal's error. Nothing if there was an answer. */
        public void refuse(String error) {
            answer.completeExceptionally(new NotWritten(error));
        }
    }

    /** Waits for the next one; null when there will be none. */
    public HistoryRequest take() throws InterruptedException {
        HistoryRequest next = asked.take();
        return next == END ? null : next;
    }

    /** Nobody answers any more. */
    public void close() {
        closed = true;
        for (HistoryRequest left = asked.poll(); left != null; left = asked.poll()) {
            left.refuse(gone());
        }
        asked.add(END);
    }

    private byte[] ask(HazelcastInstance instance, byte[] text) {
        if (gate != null) {
            gate.check();
            majority.check(instance.getCluster().getMembers());
        }
        HistoryRequest question = new HistoryRequest(text);
        asked.add(question);
        if (closed) {
            question.refuse(gone());
        }
        try {
            return question.answer.join();
        } catch (CompletionException error) {
            throw (RuntimeException) error.getCause();
        }
    }

    private static String gone() {
        return "ClusterUnreachable: this node is leaving. Ask another one.";
    }

    /** A question on its way: asked where it arrives. */
    abstract static class Asked extends TaskFactory.Task implements Callable<byte[]> {
        private byte[] text;

        Asked() { }

        Asked(byte[] text) {
            this.text = text;
        }

        /** The name of those who answer it, in the user context of the member. */
        abstract String service();

        @Override
        public byte[] call() {
            return ((HistoryRequests) instance.getUserContext().get(service())).ask(instance, text);
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeByteArray(text);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            text = in.readByteArray();
        }
    }

    /** From a client. */
    public static final class Ask extends Asked {
        @Override
        String service() {
            return SERVICE;
        }

        @Override
        public int getClassId() {
            return TaskFactory.QUESTION;
        }
    }

    /** From a member. */
    public static final class AskPeer extends Asked {
        public AskPeer() { }

        public AskPeer(byte[] text) {
            super(text);
        }

        @Override
        String service() {
            return PEERS;
        }

        @Override
        public int getClassId() {
            return TaskFactory.PEER_QUESTION;
        }
    }
}
