package logs;

import java.io.File;
import java.util.Locale;

/**
 * Writes a log with the library of a product, or reads it with the library and prints what it gives back, a line each.
 *
 * <pre>java -cp … logs.Main seatunnel|flume|nifi-sequential|nifi-minimal write|read FOLDER [CHANGES [SEED]]</pre>
 */
public final class Main {
    private Main() {}

    public static void main(String[] words) {
        int code = 0;
        try {
            run(words);
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        System.exit(code); // the libraries leave threads
    }

    private static void run(String[] words) throws Exception {
        File folder = new File(words[2]);
        int changes = words.length > 3 ? Integer.parseInt(words[3]) : 40;
        long seed = words.length > 4 ? Long.parseLong(words[4]) : 7;
        boolean writes = words[1].equals("write");
        switch (words[0]) {
            case "seatunnel":
                if (writes) {
                    SeaTunnelLog.write(folder, changes, seed);
                } else {
                    SeaTunnelLog.read(folder);
                }
                break;
            case "flume":
                if (writes) {
                    FlumeLog.write(folder, changes, seed);
                } else {
                    FlumeLog.read(folder);
                }
                break;
            default:
                boolean sequential = words[0].toLowerCase(Locale.ROOT).equals("nifi-sequential");
                if (writes) {
                    NiFiLog.write(folder, sequential, changes, seed);
                } else {
                    NiFiLog.read(folder, sequential);
                }
        }
    }
}
