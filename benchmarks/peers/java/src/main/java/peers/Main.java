package peers;

import java.io.File;
import java.io.IOException;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** Runs one verb of one peer: `Main PEER VERB name=value…`. The last line of the output is the answer, as JSON. */
public final class Main {
    private Main() {
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> arguments = new TreeMap<>();
        for (int place = 2; place < words.length; place++) {
            String[] pair = words[place].split("=", 2);
            arguments.put(pair[0], pair[1]);
        }
        String answer = run(words[0], words[1], arguments);
        System.out.println(answer);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String run(String name, String verb, Map<String, String> arguments) throws Exception {
        int producers = Integer.parseInt(arguments.getOrDefault("producers", "1"));
        long started = System.nanoTime();
        try (Peer peer = open(name, new File(arguments.get("folder")), producers)) {
            long recovered = peer.recover();
            double seconds = (System.nanoTime() - started) / 1e9;
            switch (verb) {
                case "recover":
                    return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %f}", recovered, seconds);
                case "fill":
                    return new Load(peer, producers, arguments).fill();
                case "puts":
                    return new Load(peer, producers, arguments).run();
                default:
                    throw new IllegalArgumentException("no verb " + verb);
            }
        }
    }

    private static Peer open(String name, File folder, int producers) throws IOException {
        if (!folder.isDirectory() && !folder.mkdirs()) {
            throw new IOException("cannot make " + folder);
        }
        switch (name) {
            case "seatunnel":
                return new SeaTunnel(folder, producers);
            case "nifi-sequential":
                return NiFi.sequential(folder);
            case "nifi-minimal-locking":
                return NiFi.minimalLocking(folder);
            case "flume":
                return new Flume(folder);
            default:
                throw new IllegalArgumentException("no peer " + name);
        }
    }
}
