package kvwal.node;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * What clients ask that memory does not know, as the past of a map: their tasks wait here until Python, which reads logs and
 * archive, has answered.
 */
public final class Questions {
    private static final String SERVICE = "kvwal.questions";
    /** Has a thread for each question under way: not those of transactions, which would wait for an archive that is away. */
    private static final String EXECUTOR = "kvwal.questions";
    private static final int AT_ONCE = 64;
    private static final Question END = new Question(new byte[0]);

    private final Gate gate;
    private final Majority majority;
    private final BlockingQueue<Question> asked = new LinkedBlockingQueue<>();
    private volatile boolean closed;

    public Questions(Gate gate, Majority majority) {
        this.gate = gate;
        this.majority = majority;
    }

    /** For the configuration of the member that answers them. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
        config.getExecutorConfig(EXECUTOR).setPoolSize(AT_ONCE);
    }

    /** What was asked, and where its answer goes. */
    public static final class Question {
        private final byte[] text;
        private final CompletableFuture<byte[]> answer = new CompletableFuture<>();

        Question(byte[] text) {
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
    public Question take() throws InterruptedException {
        Question next = asked.take();
        return next == END ? null : next;
    }

    /** Nobody answers any more. */
    public void close() {
        closed = true;
        for (Question left = asked.poll(); left != null; left = asked.poll()) {
            left.refuse(gone());
        }
        asked.add(END);
    }

    private byte[] ask(HazelcastInstance instance, byte[] text) {
        gate.check();
        majority.check(instance.getCluster().getMembers());
        Question question = new Question(text);
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

    /** From a client. */
    static final class Ask extends Tasks.Task implements Callable<byte[]> {
        private byte[] text;

        @Override
        public byte[] call() {
            return ((Questions) instance.getUserContext().get(SERVICE)).ask(instance, text);
        }

        @Override
        public int getClassId() {
            return Tasks.QUESTION;
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
}
