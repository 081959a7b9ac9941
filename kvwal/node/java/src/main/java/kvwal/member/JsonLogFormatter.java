package kvwal.member;

import com.hazelcast.internal.json.Json;
import com.hazelcast.internal.json.JsonObject;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Log formatter: one JSON object a line on standard error, with the field names of Python's lines. */
public final class JsonLogFormatter extends Formatter {
    private static final Logger PRINTED = Logger.getLogger("java");
    private static final RepeatedLines REPEATS = new RepeatedLines();

    /** Logs warnings and errors of Hazelcast and of all other code, printed lines, and exceptions that end a thread. */
    public static void begin() {
        Logger root = Logger.getLogger("");
        root.setLevel(Level.WARNING);
        for (Handler handler : root.getHandlers()) {
            handler.setLevel(Level.WARNING);
            handler.setFormatter(new JsonLogFormatter());
            handler.setFilter(REPEATS);
        }
        Thread.setDefaultUncaughtExceptionHandler((thread, error) ->
            PRINTED.log(Level.SEVERE, "the thread " + thread.getName() + " has ended", error));
        // The handlers have the streams of before.
        System.setErr(new PrintStream(new Lines(), true, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Lines(), true, StandardCharsets.UTF_8));
    }

    /** Logs now how many repeated lines were left out so far: for the end of a node. */
    public static void tellLeftOut() {
        REPEATS.endAll();
    }

    @Override
    public String format(LogRecord record) {
        JsonObject line = Json.object().add("event", formatMessage(record)).add("logger", record.getLoggerName());
        if (record.getThrown() != null) {
            StringWriter trace = new StringWriter();
            record.getThrown().printStackTrace(new PrintWriter(trace));
            line.add("exception", trace.toString());
        }
        line.add("level", record.getLevel().intValue() >= Level.SEVERE.intValue() ? "error" : "warning");
        return line.add("timestamp", record.getInstant().toString()) + "\n";
    }

    /** Stream that logs each printed line. */
    private static final class Lines extends OutputStream {
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            if (value != '\n') {
                line.write(value);
                return;
            }
            String text = line.toString(StandardCharsets.UTF_8).stripTrailing();
            line.reset();
            if (!text.isEmpty()) {
                PRINTED.warning(() -> text);
            }
        }
    }
}
