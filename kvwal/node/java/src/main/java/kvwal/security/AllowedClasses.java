package kvwal.security;

import com.hazelcast.config.ClassFilter;
import com.hazelcast.config.JavaSerializationFilterConfig;
import com.hazelcast.core.Hazelcast;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import java.util.stream.Stream;
import kvwal.node.NotWritten;

/**
 * Allow-list of Java deserialization: errors, which members send each other, and their parts. No client of kvwal sends Java
 * objects. A value that is one is kept as bytes, and only a predicate that reads it is refused.
 */
public final class AllowedClasses {
    private static final String JDK = "/modules/java.base";
    private static final String[] PARTS = {
        "java.lang.Throwable", "java.lang.StackTraceElement", "[Ljava.lang.StackTraceElement;", "[Ljava.lang.Throwable;",
        "java.util.Collections$EmptyList", "java.util.Collections$UnmodifiableList",
        "java.util.Collections$UnmodifiableCollection", "java.util.Collections$UnmodifiableRandomAccessList",
        "java.util.ArrayList", "java.lang.Number", "java.lang.Integer", "java.lang.Long",
        "java.lang.Boolean", "java.util.UUID", "java.lang.Enum",
        "com.hazelcast.version.MemberVersion",
    };

    private AllowedClasses() { }

    /** For Hazelcast's configuration. */
    public static JavaSerializationFilterConfig filter() throws IOException, URISyntaxException {
        ClassFilter allowed = new ClassFilter().addClasses(PARTS).addClasses(NotWritten.class.getName());
        URI jar = Hazelcast.class.getProtectionDomain().getCodeSource().getLocation().toURI();
        try (FileSystem files = FileSystems.newFileSystem(Path.of(jar))) {
            addErrors(files.getPath("/"), "com/hazelcast", allowed::addClasses);
        }
        addErrors(FileSystems.getFileSystem(URI.create("jrt:/")).getPath(JDK), "java", allowed::addClasses);
        return new JavaSerializationFilterConfig().setDefaultsDisabled(true).setWhitelist(allowed);
    }

    /** Adds the classes under a folder of `root` whose names say that they are errors. */
    private static void addErrors(Path root, String folder, Consumer<String> add) throws IOException {
        try (Stream<Path> found = Files.walk(root.resolve(folder))) {
            found.map(path -> root.relativize(path).toString()).filter(name -> name.matches(".*(Exception|Error)\\.class"))
                .forEach(name -> add.accept(name.replace('/', '.').substring(0, name.length() - ".class".length())));
        }
    }
}
