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
import kvwal.node.MemberQuery;
import kvwal.node.MemberTask;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;
import kvwal.node.TaskIds;
import kvwal.quorum.Majority;

/**
 * Queue of requests that logs and archive answer, not memory: clients ask for the history of a map, and members ask each other.
 * The task of a request waits here until Python has answered.
 */
public final class HistoryRequests {
    private static final String SERVICE = "kvwal.questions";
    /** Executor for requests of members. No client's request uses it, so members that ask each other cannot deadlock. */
    private static final String PEERS = "kvwal.peers";
    private static final String FIGURES = "kvwal.figures";
    private static final long ASK_AGAIN_MILLIS = 10_000;
    private static final int AT_ONCE = 64;
    private static final HistoryRequest END = new HistoryRequest(new byte[0]);

    private final String service;
    private final ReadyGate gate;
    private final Majority majority;
    private final BlockingQueue<HistoryRequest> asked = new LinkedBlockingQueue<>();
    private volatile boolean closed;

    public HistoryRequests(ReadyGate gate, Majority majority) {
        this(SERVICE, gate, majority);
    }

    private HistoryRequests(String service, ReadyGate gate, Majority majority) {
        this.service = service;
        this.gate = gate;
        this.majority = majority;
    }

    /** Requests of members: answered before memory is whole, too. */
    public static HistoryRequests ofPeers() {
        return new HistoryRequests(PEERS, null, null);
    }

    /** Requests of clients for the figures of this member: answered before memory is whole, too. */
    public static HistoryRequests ofFigures() {
        return new HistoryRequests(FIGURES, null, null);
    }

    /** Makes this the queue of the member with this configuration. */
    public void configure(Config config) {
        config.getUserContext().put(service, this);
        config.getExecutorConfig(PEERS.equals(service) ? PEERS : TaskIds.HISTORY).setPoolSize(AT_ONCE);
    }

    /** The answer of the member with this UUID; null if the member is gone, or has not answered after `millis`. */
    public static byte[] askPeer(HazelcastInstance instance, String number, byte[] text, long millis)
            throws ExecutionException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        IExecutorService executor = instance.getExecutorService(PEERS);
        List<Member> asked = new ArrayList<>(instance.getCluster().getMembers());
        asked.removeIf(member -> !member.getUuid().toString().equals(number));
        List<byte[]> found = MemberQuery.of(asked,
            (member, answer) -> executor.submitToMember(new AskPeer(text), member, new MemberQuery.Into<>(answer)),
            member -> System.nanoTime() < end && MemberQuery.isThere(instance, member), Math.min(millis, ASK_AGAIN_MILLIS));
        return found.isEmpty() ? null : found.get(0);
    }

    /** One request, and the place for its answer. */
    public static final class HistoryRequest {
        private final byte[] text;
        private final CompletableFuture<byte[]> answer = new CompletableFuture<>();

        HistoryRequest(byte[] text) {
            this.text = text;
        }

        public byte[] text() {
            return text;
        }

        /** Answers the request. */
        public void answer(byte[] with) {
            answer.complete(with);
        }

        /** Refuses the request: `error` begins with the name of kvwal's error. Does nothing if it is answered. */
        public void refuse(String error) {
            answer.completeExceptionally(new NotWritten(error));
        }
    }

    /** Blocks until there is a request; null when there will be no more. */
    public HistoryRequest take() throws InterruptedException {
        HistoryRequest next = asked.take();
        return next == END ? null : next;
    }

    /** Refuses all requests, and all later ones. */
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

    /** Task that carries a request to a member. */
    abstract static class Asked extends MemberTask implements Callable<byte[]> {
        private byte[] text;

        Asked() { }

        Asked(byte[] text) {
            this.text = text;
        }

        /** Name of the queue in the user context of the member. */
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

    /** Task of a client. */
    public static final class Ask extends Asked {
        @Override
        String service() {
            return SERVICE;
        }

        @Override
        public int getClassId() {
            return TaskIds.ASK_HISTORY;
        }
    }

    /** Task of a member. */
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
            return TaskIds.ASK_PEER;
        }
    }

    /** Task of a client that asks for figures. */
    public static final class AskFigures extends Asked {
        @Override
        String service() {
            return FIGURES;
        }

        @Override
        public int getClassId() {
            return TaskIds.ASK_FIGURES;
        }
    }
}
