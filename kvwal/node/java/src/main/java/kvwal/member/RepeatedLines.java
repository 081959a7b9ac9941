package kvwal.member;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Filter;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Pattern;

/**
 * Limit of repeated log lines: of lines that differ in numbers only, `MOST` are written in a minute. A last line tells how
 * many were left out. Hazelcast logs a failed migration of each partition, a thousand lines in seconds. See repeated_lines.py.
 */
final class RepeatedLines implements Filter {
    private static final int MOST = 10;
    private static final long SECONDS = 60;
    private static final Pattern VARYING = Pattern.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\d+");

    private final Map<Kind, Window> windows = new HashMap<>();

    private record Kind(String logger, Level level, String text) { }

    /** One kind of lines, from its first line on. */
    private static final class Window {
        private final String text;
        private int written;
        private int leftOut;

        Window(String text) {
            this.text = text;
        }
    }

    @Override
    public boolean isLoggable(LogRecord record) {
        String text = String.valueOf(record.getMessage());
        Kind kind = new Kind(record.getLoggerName(), record.getLevel(), VARYING.matcher(text).replaceAll("#"));
        synchronized (windows) {
            Window window = windows.get(kind);
            if (window == null) {
                window = new Window(text);
                windows.put(kind, window);
                CompletableFuture.delayedExecutor(SECONDS, TimeUnit.SECONDS).execute(() -> end(kind));
            }
            if (window.written < MOST) {
                window.written++;
                return true;
            }
            window.leftOut++;
            return false;
        }
    }

    /** Logs how many lines were left out, now. */
    void endAll() {
        Kind[] all;
        synchronized (windows) {
            all = windows.keySet().toArray(new Kind[0]);
        }
        for (Kind kind : all) {
            end(kind);
        }
    }

    private void end(Kind kind) {
        Window window;
        synchronized (windows) {
            window = windows.remove(kind);
        }
        if (window != null && window.leftOut > 0) {
            String line = window.leftOut + " lines like an earlier one were left out: " + window.text;
            Logger.getLogger(kind.logger == null ? "" : kind.logger).log(kind.level, line);
        }
    }
}
