package kvwal.security;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManagerFactory;

/** TLS context of a member, from PEM: its certificate and key, and the authority that signed those of the other members. */
public final class Tls {
    private static final char[] NONE = new char[0];

    private final SSLContext context;

    public Tls(byte[] certificate, byte[] key, byte[] authority) throws GeneralSecurityException, IOException {
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        own.setKeyEntry("member", key(key), NONE, certificates(certificate).toArray(new Certificate[0]));
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, NONE);
        KeyStore others = KeyStore.getInstance("PKCS12");
        others.load(null, null);
        for (Certificate trusted : certificates(authority)) {
            others.setCertificateEntry("authority-" + others.size(), trusted);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(others);
        context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    }

    /** Engine of one end of a connection. */
    SSLEngine engine(boolean connects) {
        SSLEngine engine = context.createSSLEngine();
        engine.setUseClientMode(connects);
        engine.setEnabledProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
        return engine;
    }

    private static Collection<? extends Certificate> certificates(byte[] pem) throws GeneralSecurityException {
        return CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem));
    }

    private static PrivateKey key(byte[] pem) throws GeneralSecurityException {
        String text = new String(pem, StandardCharsets.US_ASCII);
        if (!text.contains("-----BEGIN PRIVATE KEY-----")) {
            throw new InvalidKeySpecException("the key is to be PKCS#8, without a password: it begins with BEGIN PRIVATE KEY");
        }
        byte[] bytes = Base64.getMimeDecoder().decode(text.replaceAll("-----[A-Z ]+-----", ""));
        try {
            return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(bytes));
        } catch (InvalidKeySpecException error) {
            return KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(bytes));
        }
    }
}
