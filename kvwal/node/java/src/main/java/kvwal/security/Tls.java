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
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManagerFactory;

/** TLS context of a member, from PEM: its certificate and key, and the authority that signed those of the other members. */
public final class Tls {
    private static final char[] NONE = new char[0];

    private final SSLContext context;
    private final long begins;
    private final long ends;

    public Tls(byte[] certificate, byte[] key, byte[] authority) throws GeneralSecurityException, IOException {
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        List<X509Certificate> chain = certificates(certificate);
        own.setKeyEntry("member", key(key), NONE, chain.toArray(new Certificate[0]));
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, NONE);
        KeyStore others = KeyStore.getInstance("PKCS12");
        others.load(null, null);
        List<X509Certificate> authorities = certificates(authority);
        for (Certificate trusted : authorities) {
            others.setCertificateEntry("authority-" + others.size(), trusted);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(others);
        context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        begins = chain.stream().mapToLong(one -> one.getNotBefore().getTime()).max().orElseThrow();
        long trusted = authorities.stream().mapToLong(one -> one.getNotAfter().getTime()).max().orElseThrow();
        ends = Math.min(trusted, chain.stream().mapToLong(one -> one.getNotAfter().getTime()).min().orElseThrow());
    }

    /** When the certificate, and those between it and the authority, begin to count, in unix ms. */
    public long begins() {
        return begins;
    }

    /** When the first of these ends, or the last of the authorities, in unix ms: from then on nobody new can connect. */
    public long ends() {
        return ends;
    }

    /** Engine of one end of a connection. */
    SSLEngine engine(boolean connects) {
        SSLEngine engine = context.createSSLEngine();
        engine.setUseClientMode(connects);
        engine.setEnabledProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
        return engine;
    }

    private static List<X509Certificate> certificates(byte[] pem) throws GeneralSecurityException {
        return CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem)).stream()
            .map(X509Certificate.class::cast).toList();
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
